import { afterEach, describe, expect, test, vi } from "vitest";
import type { Run } from "../src/api/types";
import { RunList } from "../src/views/runs/list";

/** A server with runs, which answers requests for lists of them, and counts these. */
class Server {
  runs: Run[] = [];
  requests = 0;

  start(status: Run["status"] = "running"): Run {
    const createdAt = new Date(Date.UTC(2026, 0, 1) + this.runs.length * 1000).toISOString();
    const run = { id: `run_${this.runs.length}`, status, version: 1, createdAt, updatedAt: createdAt, totalCostUsd: 0 } as Run;
    this.runs.unshift(run);
    return run;
  }

  answer(address: string): Response {
    this.requests += 1;
    const query = new URL(address, "http://localhost").searchParams;
    const [from, to, status] = [query.get("createdFrom"), query.get("createdTo"), query.getAll("status").join()];
    const found = this.runs.filter((run) => (!from || run.createdAt >= from) && (!to || run.createdAt < to) && (!status || run.status === status));
    const [page, pageSize] = [Number(query.get("page") ?? 1), Number(query.get("pageSize"))];
    const data = found.slice((page - 1) * pageSize, page * pageSize);
    return Response.json({ success: true, data, meta: { page, pageSize, total: found.length, totalPages: 1 } });
  }
}

const NOTHING = { first: 0, end: 0 };

describe("a list of runs", () => {
  afterEach(() => void vi.unstubAllGlobals());

  function open(filter = ""): { server: Server; list: RunList } {
    const server = new Server();
    vi.stubGlobal("fetch", (address: string) => Promise.resolve(server.answer(address)));
    return { server, list: new RunList(new URLSearchParams(filter), "-createdAt") };
  }

  test("that was opened empty shows the runs that begin", async () => {
    const { server, list } = open();
    await list.refresh(NOTHING);
    expect(list.total.value).toBe(0);
    expect(list.take([server.start()])).toBe(true);
    await list.refresh(NOTHING);
    expect([list.total.value, list.row(0)?.id, list.fresh.value]).toEqual([1, "run_0", 0]);
    server.start();
    await list.refresh({ first: 0, end: 1 });
    expect([list.total.value, list.fresh.value]).toEqual([1, 1]);
  });

  test("that has become empty shows the older runs that match again", async () => {
    const { server, list } = open("status=failed");
    const run = server.start("failed");
    await list.refresh(NOTHING);
    run.status = "running";
    await list.refresh({ first: 0, end: 1 });
    expect(list.total.value).toBe(0);
    run.status = "failed";
    await list.refresh(NOTHING);
    expect([list.total.value, list.row(0)?.id]).toEqual([1, run.id]);
  });

  test("asks for one page at a time", async () => {
    const { server, list } = open();
    await list.refresh(NOTHING);
    expect(server.requests).toBe(1);
  });
});
