/* Values of JSON whose shape is not known. */

import type { Json, JsonMap } from "./api/types";

/** Return a value if it is an object, and else an empty one. */
export function asMap(value: Json | undefined): JsonMap {
  return value && typeof value === "object" && !Array.isArray(value) ? value : {};
}
