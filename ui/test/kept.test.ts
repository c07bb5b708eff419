import { describe, expect, test } from "vitest";
import { NARROWEST, toWidth, USUAL, WIDEST, widthAfter } from "../src/views/run/inspector/width";
import { COLUMNS, hiddenAt, isCurrent, withColumns } from "../src/views/runs/columns";

describe("the width of the inspector", () => {
  test("stays between its limits, whatever was kept", () => {
    expect([toWidth(100), toWidth(500.4), toWidth(9999), toWidth(Number("x"))]).toEqual([NARROWEST, 500, WIDEST, USUAL]);
  });

  test("follows the arrows, as the line that is moved stands at its left", () => {
    expect(widthAfter("ArrowLeft", false, 448)).toBe(464);
    expect(widthAfter("ArrowRight", true, 448)).toBe(384);
    expect(widthAfter("ArrowRight", true, NARROWEST)).toBe(NARROWEST);
    expect([widthAfter("Home", false, 448), widthAfter("End", false, 448), widthAfter("a", false, 448)]).toEqual([NARROWEST, WIDEST, null]);
  });
});

describe("columns", () => {
  test("are hidden as the address says, or else as they were left", () => {
    expect(hiddenAt(new URLSearchParams("status=failed"), ["cost"])).toEqual(["cost"]);
    expect(hiddenAt(new URLSearchParams("hide=tags&hide=run&hide=graph&hide=nonsense"), ["cost"])).toEqual(["run", "tags"]);
    expect(hiddenAt(new URLSearchParams("hide=none"), ["cost"])).toEqual([]);
  });

  test("are part of a saved view, and come back with it", () => {
    for (const hidden of [[], ["run", "tags"], [...COLUMNS]] as (typeof COLUMNS)[number][][]) {
      const query = withColumns("status=failed&status=waiting", hidden);
      expect(hiddenAt(new URLSearchParams(query), ["cost"])).toEqual(hidden);
      expect(isCurrent(query, "status=failed&status=waiting", hidden)).toBe(true);
      expect(isCurrent(query, "status=failed", hidden)).toBe(false);
    }
    expect(isCurrent("status=failed", "status=failed", ["run"])).toBe(true); // a view from before
    expect(isCurrent(withColumns("", ["run"]), "", ["cost"])).toBe(false);
  });
});
