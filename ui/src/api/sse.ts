/* Server-sent events as text: a parser that takes the pieces as they arrive. */

export interface ServerEvent {
  event: string;
  data: string;
  /** Null for an event without an id, which is not stored. */
  id: string | null;
}

/** Returns the events that each piece of the stream completes. */
export class SseParser {
  private rest = "";

  push(piece: string): ServerEvent[] {
    const blocks = (this.rest + piece).replace(/\r\n?/g, "\n").split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(readBlock).filter((event) => event !== null);
  }
}

function readBlock(block: string): ServerEvent | null {
  let event = "message";
  let id: string | null = null;
  const data: string[] = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // a comment, which keeps the connection open
    const value = line.slice(colon + 1).replace(/^ /, "");
    const name = line.slice(0, colon);
    if (name === "event") event = value;
    else if (name === "id") id = value;
    else if (name === "data") data.push(value);
  }
  return data.length ? { event, data: data.join("\n"), id } : null;
}
