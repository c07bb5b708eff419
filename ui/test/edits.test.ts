import { expect, test } from "vitest";
import { changedFields, toEdit } from "../src/views/threads/edits";

test("only the fields that were edited are written, also those that are new", () => {
  expect(changedFields({ a: [1, 2], b: { x: 1 }, c: "t" }, { a: [1], b: { x: 1 }, c: "t", d: null })).toEqual({ a: [1], d: null });
  expect([changedFields({ a: 1 }, [1]), changedFields({ a: 1 }, undefined), changedFields({ a: 1 }, {})]).toEqual([{}, {}, {}]);
});

test("an edited field is overwritten, unless it is to be passed to its reducer", () => {
  expect(toEdit({ a: [1], d: 2 }, [], "plan")).toEqual({ values: { a: [1], d: 2 }, overwrite: ["a", "d"], asNode: "plan" });
  expect(toEdit({ a: [1], d: 2 }, ["a"], "")).toEqual({ values: { a: [1], d: 2 }, overwrite: ["d"] });
  expect(toEdit({ a: [1] }, ["a"], "")).toEqual({ values: { a: [1] } });
});
