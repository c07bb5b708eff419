/* The runs that fit, as a file of JSON; at most the newest 5 000. */

import { api } from "../../api/client";
import type { Run } from "../../api/types";
import { attempt } from "../../state/toast";

const MOST = 5000;

export async function downloadRuns(query: URLSearchParams, total: number): Promise<void> {
  await attempt(async () => {
    const runs: Run[] = [];
    for (let page = 1; runs.length < Math.min(total, MOST); page += 1) {
      const parameters = new URLSearchParams(query);
      parameters.set("page", String(page));
      parameters.set("pageSize", "100");
      const found = await api.runs(parameters);
      runs.push(...found.items);
      if (found.items.length < 100) break;
    }
    save("runs.json", JSON.stringify(runs, null, 2), "application/json");
  });
}

/** Hand a file to the browser. */
export function save(name: string, content: string, type: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
