/* The shortest edit from one sequence to another, by Myers' algorithm, after what both begin and end with is set aside. */

export interface Run<T> {
  kind: "same" | "del" | "add";
  items: T[];
}

/** The number of edits above which two sequences are taken for different as a whole: the algorithm needs the square of it in time. */
const MOST_EDITS = 400;

export function diffSequences<T>(before: readonly T[], after: readonly T[], keyOf: (item: T) => unknown = (item) => item): Run<T>[] {
  const a = before.map(keyOf);
  const b = after.map(keyOf);
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const runs: Run<T>[] = [];
  const push = (kind: Run<T>["kind"], item: T): void => {
    const last = runs[runs.length - 1];
    if (last?.kind === kind) last.items.push(item);
    else runs.push({ kind, items: [item] });
  };
  for (const item of after.slice(0, start)) push("same", item);
  const [innerA, innerB] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  let [x, y] = [start, start];
  for (const step of shortestEdit(innerA, innerB)) {
    if (step === "same") push("same", after[y++] as T), (x += 1);
    else if (step === "del") push("del", before[x++] as T);
    else push("add", after[y++] as T);
  }
  for (const item of after.slice(after.length - end)) push("same", item);
  return runs;
}

function shortestEdit(a: unknown[], b: unknown[]): Run<unknown>["kind"][] {
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const replaced = (): Run<unknown>["kind"][] => [...a.map(() => "del" as const), ...b.map(() => "add" as const)];
  if (!a.length || !b.length) return replaced();
  let furthest = new Map<number, number>([[1, 0]]);
  const trail: Map<number, number>[] = [];
  for (let edits = 0; edits <= most; edits += 1) {
    trail.push(new Map(furthest));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
      let x = down ? (furthest.get(k + 1) ?? 0) : (furthest.get(k - 1) ?? 0) + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      furthest.set(k, x);
      if (x >= a.length && x - k >= b.length) return walkBack(a, b, trail);
    }
  }
  return replaced();
}

function walkBack(a: unknown[], b: unknown[], trail: Map<number, number>[]): Run<unknown>["kind"][] {
  const steps: Run<unknown>["kind"][] = [];
  let [x, y] = [a.length, b.length];
  for (let edits = trail.length - 1; edits >= 0; edits -= 1) {
    const furthest = trail[edits] as Map<number, number>;
    const k = x - y;
    const down = k === -edits || (k !== edits && (furthest.get(k - 1) ?? -1) < (furthest.get(k + 1) ?? -1));
    const before = down ? k + 1 : k - 1;
    const fromX = furthest.get(before) ?? 0;
    const fromY = fromX - before;
    while (x > fromX && y > fromY && x > 0 && y > 0) steps.push("same"), (x -= 1), (y -= 1);
    if (edits === 0) break;
    steps.push(down ? "add" : "del");
    [x, y] = [fromX, fromY];
  }
  return steps.reverse();
}
