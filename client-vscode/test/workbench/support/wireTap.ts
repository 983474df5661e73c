/** Stands between the extension and a real daemon: hears every request, and holds answers back on demand. */

import { chmodSync, mkdirSync } from "node:fs";
import * as net from "node:net";
import * as path from "node:path";

import { socketPath } from "../../../src/core/places.ts";
import type { World } from "./world.ts";

export interface Heard {
  readonly id: number | string | undefined;
  readonly method: string;
  readonly params: Record<string, unknown>;
}

interface Message {
  id?: number | string;
  method?: string;
  params?: Record<string, unknown>;
}

export class WireTap {
  readonly heard: Heard[] = [];
  readonly #server: net.Server;
  readonly #held: (() => void)[] = [];
  #isHeld: (request: Heard) => boolean = () => false;
  #isHolding = false;

  private constructor(server: net.Server) {
    this.#server = server;
  }

  /** Starts the world's daemon behind a socket of its own, and listens where the extension looks for it. */
  static async start(world: World): Promise<WireTap> {
    const behind = path.join(world.root, "behind");
    mkdirSync(behind, { mode: 0o700 });
    const env = { ...world.env, XDG_RUNTIME_DIR: behind };
    await world.palaceWith(env, "mine", "--wait");
    const [front, back] = [socketPath(world.memory, world.env), socketPath(world.memory, env)];
    mkdirSync(path.dirname(front), { mode: 0o700, recursive: true });
    const server = net.createServer();
    const tap = new WireTap(server);
    server.on("connection", (socket) => {
      tap.#join(socket, net.connect(back));
    });
    await new Promise<void>((resolve) => server.listen(front, resolve));
    chmodSync(front, 0o600);
    return tap;
  }

  /** Requests of a method, in order. */
  of(method: string): Heard[] {
    return this.heard.filter((one) => one.method === method);
  }

  /** Whether the request was withdrawn by whoever asked it. */
  isWithdrawn(request: Heard): boolean {
    return this.of("$/cancelRequest").some((one) => one.params.id === request.id);
  }

  /** Keeps the answers to such requests back until `release`. */
  hold(isHeld: (request: Heard) => boolean): void {
    this.#isHeld = isHeld;
    this.#isHolding = true;
  }

  /** Sends what was held, the newest first, and holds nothing any more. */
  release(): void {
    this.#isHeld = () => false;
    this.#isHolding = false; // an answer that a slow daemon gives only now goes through
    for (const send of this.#held.splice(0).reverse()) send();
  }

  async end(): Promise<void> {
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #join(client: net.Socket, daemon: net.Socket): void {
    const holding = new Set<number | string>();
    const hear = (message: Message): void => {
      if (message.method === undefined) return;
      const request: Heard = { id: message.id, method: message.method, params: message.params ?? {} };
      this.heard.push(request);
      if (request.id !== undefined && this.#isHeld(request)) holding.add(request.id);
    };
    relay(client, daemon, (message, send) => {
      hear(message);
      send();
    });
    relay(daemon, client, (message, send) => {
      if (message.id !== undefined && holding.delete(message.id) && this.#isHolding) this.#held.push(send);
      else send();
    });
  }
}

/** Passes whole messages on, each through `handle`. */
function relay(from: net.Socket, to: net.Socket, handle: (message: Message, send: () => void) => void): void {
  let rest = Buffer.alloc(0);
  from.on("data", (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    for (let frame = first(rest); frame; frame = first(rest)) {
      const { whole, body } = frame;
      rest = rest.subarray(whole.length);
      handle(JSON.parse(body) as Message, () => {
        if (to.writable) to.write(whole);
      });
    }
  });
  from.on("error", () => to.destroy());
  from.on("close", () => to.end());
}

/** The first whole message, if there is one. */
function first(bytes: Buffer): { whole: Buffer; body: string } | undefined {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const length = Number(/Content-Length: *(\d+)/i.exec(bytes.subarray(0, end).toString("ascii"))?.[1]);
  const start = end + 4;
  if (bytes.length < start + length) return undefined;
  return { whole: Buffer.from(bytes.subarray(0, start + length)), body: bytes.subarray(start, start + length).toString("utf8") };
}
