import { describe, expect, test } from "vitest";
import type { Json, JsonMap } from "../src/api/types";
import { constraintOf, defaultOf, readField } from "../src/form/schema";
import { validate } from "../src/form/validate";

const WINDOW: JsonMap = {
  type: "object",
  required: ["starts"],
  $defs: { Level: { enum: ["low", "high"], title: "Level" } },
  properties: {
    starts: { type: "string", format: "date-time", title: "Starts at" },
    minutes: { type: "integer", minimum: 5, maximum: 240, default: 30 },
    notify: { type: "array", items: { type: "string" }, maxItems: 2 },
    level: { $ref: "#/$defs/Level" },
    note: { anyOf: [{ type: "string" }, { type: "null" }], default: null },
    steps: { type: "array", items: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } },
  },
};

describe("a schema", () => {
  const field = readField(WINDOW);

  test("becomes fields of the kinds that people fill in", () => {
    expect(Object.fromEntries(Object.entries(field.fields).map(([name, { kind }]) => [name, kind]))).toEqual({
      starts: "moment",
      minutes: "integer",
      notify: "tokens",
      level: "choice",
      note: "text",
      steps: "list",
    });
  });

  test("names fields by their title, unless it was made from the name", () => {
    const named = readField({ type: "object", properties: { lead_email: { type: "string", title: "Lead Email" }, at: { type: "string", title: "Starts at" } } });
    expect(Object.values(named.fields).map(({ label }) => label)).toEqual(["lead_email", "Starts at"]);
  });

  test("gives its defaults, and leaves out what has none", () => {
    expect(defaultOf(field)).toEqual({ minutes: 30, note: null });
  });

  test("says what is allowed before anything is wrong", () => {
    expect(constraintOf(field.fields.minutes as never, false)).toBe("5 to 240, optional");
    expect(constraintOf(field.fields.starts as never, true)).toBe("");
  });

  test("that refers to itself ends as JSON", () => {
    const tree = readField({ $ref: "#/$defs/Tree", $defs: { Tree: { type: "object", properties: { child: { $ref: "#/$defs/Tree" } } } } });
    let at = tree;
    for (let depth = 0; at.fields.child && depth < 50; depth += 1) at = at.fields.child;
    expect(at.kind).toBe("json");
  });

  test("that says nothing, or is no schema, is JSON", () => {
    for (const schema of [{}, null, true, [], { type: "object" }, { not: { type: "string" } }] as Json[]) expect(readField(schema).kind).toBe("json");
  });

  test("with several kinds offers them, and null is no kind", () => {
    const several = readField({ anyOf: [{ type: "string" }, { type: "integer" }, { type: "null" }] });
    expect([several.kind, several.kinds.map(({ kind }) => kind), several.isNullable]).toEqual(["oneOf", ["text", "integer"], true]);
  });
});

describe("a value", () => {
  const problems = (schema: JsonMap, value: Json | undefined): [string, string][] => [...validate(readField(schema), value)];
  const paths = (value: Json): string[] => problems(WINDOW, value).map(([path]) => path);

  test("that fits has no problems", () => {
    expect(paths({ starts: "2026-11-27T08:00:00Z", minutes: 30, notify: ["a@b"], level: "low", note: null, steps: [{ name: "x" }] })).toEqual([]);
  });

  test("that is missing is asked for, unless it is optional", () => {
    expect(paths({})).toEqual(["starts"]);
  });

  test("has its problems at the paths of their fields", () => {
    expect(paths({ starts: "tomorrow", minutes: 241, notify: ["a", "b", "c"], level: "none", steps: [{ name: "x" }, {}] })).toEqual(["starts", "minutes", "notify", "level", "steps.1.name"]);
  });

  test("of a wrong type is told so, and nothing breaks", () => {
    const wrong: Json[] = [1, "x", true, [], {}, [null]];
    for (const value of wrong) expect(() => validate(readField(WINDOW), value)).not.toThrow();
    expect(problems({ type: "integer" }, 1.5)[0]?.[1]).toBe("This has to be a whole number");
    expect(problems({ type: "integer" }, "12a")[0]?.[1]).toBe("This has to be a whole number");
    expect(problems({ type: "object", properties: { a: { type: "string" } } }, [])[0]?.[1]).toBe("This has to be an object");
  });

  test("is held to limits of length, pattern and range", () => {
    expect(problems({ type: "string", minLength: 2 }, "é")[0]?.[1]).toBe("At least 2 characters");
    expect(problems({ type: "string", maxLength: 1 }, "😀")).toEqual([]);
    expect(problems({ type: "string", pattern: "^[a-z]+$" }, "A1")[0]?.[1]).toBe("This does not have the required form");
    expect(problems({ type: "string", pattern: "(?P<python>x)" }, "y")).toEqual([]);
    expect(problems({ type: "number", exclusiveMinimum: 0 }, 0)[0]?.[1]).toBe("More than 0");
  });

  test("of one of several kinds has to fit one of them", () => {
    const several: JsonMap = { oneOf: [{ type: "integer", minimum: 1 }, { type: "object", properties: { a: { type: "string" } }, required: ["a"] }] };
    expect(problems(several, 3)).toEqual([]);
    expect(problems(several, { a: "x" })).toEqual([]);
    expect(problems(several, 0)).toHaveLength(1);
  });
});
