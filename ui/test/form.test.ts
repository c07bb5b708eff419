import { describe, expect, test } from "vitest";
import { ApiError } from "../src/api/errors";
import type { Json, JsonMap } from "../src/api/types";
import { readProblems } from "../src/form/problems";
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

describe("the schemas of Python types", () => {
  const kindOfSchema = (schema: Json): string => readField({ type: "object", properties: { x: schema } }).fields.x?.kind ?? "";

  test("have a control each", () => {
    const kinds: [string, Json][] = [
      ["date", { type: "string", format: "date" }],
      ["time", { type: "string", format: "time" }],
      ["text", { type: "string", format: "duration" }],
      ["text", { type: "string", format: "uuid" }],
      ["constant", { const: "book", type: "string" }],
      ["constant", { enum: ["book"] }],
      ["choice", { oneOf: [{ const: 1, title: "one" }, { const: 2, title: "two" }] }],
      ["several", { type: "array", uniqueItems: true, items: { enum: ["a", "b"] } }],
      ["list", { type: "array", items: { type: "integer" } }],
      ["list", { type: "array", items: { type: "array", items: { type: "string" } } }],
      ["tuple", { type: "array", minItems: 2, maxItems: 2, prefixItems: [{ type: "string" }, { type: "number" }] }],
      ["map", { type: "object", additionalProperties: { type: "integer" } }],
      ["oneOf", { type: ["string", "integer", "null"] }],
      ["json", { type: "object", additionalProperties: true }],
      ["json", { type: "array", items: {} }],
    ];
    expect(kinds.map(([, schema]) => kindOfSchema(schema))).toEqual(kinds.map(([kind]) => kind));
  });

  test("are merged where a class extends another", () => {
    const field = readField({ allOf: [{ $ref: "#/$defs/Base" }, { properties: { b: { type: "integer" } }, required: ["b"] }], $defs: { Base: { type: "object", properties: { a: { type: "string" } }, required: ["a"] } } });
    expect([Object.keys(field.fields), field.required]).toEqual([["a", "b"], ["a", "b"]]);
  });

  test("begin with their constants, which nobody has to type", () => {
    const pet: JsonMap = { type: "object", required: ["kind", "name"], properties: { kind: { const: "cat" }, name: { type: "string" } } };
    expect(defaultOf(readField(pet))).toEqual({ kind: "cat" });
  });

  test("that refer to themselves end, whatever their width", () => {
    const names = ["a", "b", "c", "d", "e", "f"];
    const node: JsonMap = { type: "object", properties: Object.fromEntries(names.map((name) => [name, { $ref: "#/$defs/Node" }])) };
    let count = 0;
    const visit = (field: ReturnType<typeof readField>): void => {
      count += 1;
      Object.values(field.fields).forEach(visit);
    };
    visit(readField({ $ref: "#/$defs/Node", $defs: { Node: node } }));
    expect(count).toBeLessThan(500);
  });
});

describe("a value of a union", () => {
  const CAT: JsonMap = { type: "object", required: ["kind", "lives"], properties: { kind: { const: "cat" }, lives: { type: "integer", maximum: 9 } } };
  const DOG: JsonMap = { type: "object", required: ["kind", "name"], properties: { kind: { const: "dog" }, name: { type: "string" } } };
  const PETS: JsonMap = { type: "object", required: ["pet"], properties: { pet: { oneOf: [CAT, DOG], discriminator: { propertyName: "kind" } } } };

  test("has the problems of the kind that it says it is, at their fields", () => {
    expect([...validate(readField(PETS), { pet: { kind: "dog" } })]).toEqual([["pet.name", "This is needed"]]);
    expect([...validate(readField(PETS), { pet: { kind: "cat", lives: 10 } })]).toEqual([["pet.lives", "At most 9"]]);
  });

  test("may be of a simple type or a group", () => {
    const field = readField({ anyOf: [{ type: "string", minLength: 3 }, { type: "integer" }, DOG] });
    expect(["abc", 3, { kind: "dog", name: "Rex" }].map((value) => validate(field, value).size)).toEqual([0, 0, 0]);
    expect([...validate(field, "ab")]).toEqual([["", "At least 3 characters"]]);
    expect(validate(field, true).size).toBe(1);
  });
});

describe("problems of the API", () => {
  const errorWith = (details: Json): ApiError => new ApiError(400, "VALIDATION_ERROR", "The whole.", details);

  test("stand at the fields that they are about", () => {
    const error = errorWith({ problems: [{ path: "body.input.steps[1].name", message: "is wrong" }, { path: "input.extra", message: "is not known" }, { path: "body.name", message: "is long" }] });
    expect([...readProblems(error, "input")]).toEqual([["steps.1.name", "is wrong"], ["extra", "is not known"], ["name", "is long"]]);
  });

  test("of one field have the whole message, and other errors have none", () => {
    expect([...readProblems(errorWith({ field: "cron" }))]).toEqual([["cron", "The whole."]]);
    expect(readProblems(errorWith(null)).size + readProblems(new Error("x")).size).toBe(0);
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

  test("is held to formats, steps and uniqueness", () => {
    expect(problems({ type: "string", format: "date" }, "2026-13-40")).toHaveLength(1);
    expect(problems({ type: "string", format: "time" }, "25:00")).toHaveLength(1);
    expect(problems({ type: "string", format: "duration" }, "PT30M")).toEqual([]);
    expect(problems({ type: "string", format: "duration" }, "30 minutes")).toHaveLength(1);
    expect(problems({ type: "string", format: "uuid" }, "7c9e6679-7425-40de-944b-e07fc1f90ae7")).toEqual([]);
    expect(problems({ type: "number", multipleOf: 0.1 }, 0.3)).toEqual([]);
    expect(problems({ type: "integer", multipleOf: 5 }, 7)[0]?.[1]).toBe("A multiple of 5");
    expect(problems({ type: "array", uniqueItems: true, items: { type: "string" } }, ["a", "a"])).toHaveLength(1);
    expect(problems({ type: "object", additionalProperties: { type: "integer" } }, { a: 1, b: "x" })).toEqual([["b", "This has to be a whole number"]]);
  });

  test("of one of several kinds has to fit one of them", () => {
    const several: JsonMap = { oneOf: [{ type: "integer", minimum: 1 }, { type: "object", properties: { a: { type: "string" } }, required: ["a"] }] };
    expect(problems(several, 3)).toEqual([]);
    expect(problems(several, { a: "x" })).toEqual([]);
    expect(problems(several, 0)).toHaveLength(1);
  });
});
