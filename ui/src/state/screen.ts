/* Whether the screen is narrow, as the style sheets mean it. */

import { signal } from "@preact/signals";

const query = typeof matchMedia === "undefined" ? null : matchMedia("(max-width: 719px)");

export const isNarrow = signal(query?.matches ?? false);
query?.addEventListener("change", () => (isNarrow.value = query.matches));
