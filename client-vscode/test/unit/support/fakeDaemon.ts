/** A machine with at most one daemon, which tests start, kill and stop: what Life sees of the world. */

import type { Answer, EventName, MethodName, Params, RequestOptions } from "../../../src/core/connection";
import { PalaceError } from "../../../src/core/errors";
import { Life, type Link } from "../../../src/core/life";
import type { State } from "../../../src/core/palace";
import type { Notifications } from "../../../src/core/protocol";
import type { Remains } from "../../../src/core/remains";
import { FakeClock } from "./fakeClock";

type Listener = (told: unknown) => void;

export class FakeLink implements Link {
  readonly hello = { version: "0.1.0" };
  readonly ended: Promise<void>;
  readonly listeners = new Map<string, Set<Listener>>();
  readonly pending = new Set<(error: PalaceError) => void>();
  isOpen = true;
  #end: () => void = () => undefined;

  constructor(
    readonly world: World,
    readonly pid: number,
  ) {
    this.ended = new Promise((resolve) => (this.#end = resolve));
  }

  request<M extends MethodName>(method: M, params: Params<M>, options: RequestOptions = {}): Promise<Answer<M>> {
    this.world.asked.push(method);
    return new Promise((resolve, reject) => {
      if (!this.isOpen) {
        reject(new PalaceError("the connection to the daemon was lost", "disconnected"));
        return;
      }
      if (this.world.hangs.has(method)) {
        this.pending.add(reject);
        options.signal?.addEventListener("abort", () => undefined);
        return;
      }
      const refusal = this.world.refusals.get(method)?.shift();
      if (refusal) {
        reject(refusal);
        return;
      }
      if (method === "palace/stop") this.world.stop();
      resolve(this.world.answer(method, params, this.pid) as Answer<M>);
    });
  }

  on<E extends EventName>(event: E, listener: (told: Notifications[E]) => void): { dispose(): void } {
    const known = this.listeners.get(event) ?? new Set();
    this.listeners.set(event, known.add(listener as Listener));
    return { dispose: () => known.delete(listener as Listener) };
  }

  tell(event: EventName, told: unknown): void {
    for (const listener of this.listeners.get(event) ?? []) listener(told);
  }

  close(): void {
    if (!this.isOpen) return;
    this.isOpen = false;
    for (const reject of this.pending) reject(new PalaceError("the connection to the daemon was lost", "disconnected"));
    this.#end();
  }
}

export class World {
  readonly clock = new FakeClock();
  readonly states: State[] = [];
  readonly asked: string[] = [];
  readonly logged: string[] = [];
  readonly hangs = new Set<string>();
  readonly refusals = new Map<string, PalaceError[]>();
  /** Errors that the next connections and launches meet. */
  readonly connectErrors: PalaceError[] = [];
  readonly launchErrors: PalaceError[] = [];
  readonly links: FakeLink[] = [];
  launches = 0;
  /** Process of the daemon that runs; 0 where none does. */
  pid = 0;
  remains: Remains = "nothing";
  mayStart = true;
  launchMs = 0;
  dataDirectory = "/data";

  readonly life = new Life({
    dataDirectory: () => this.dataDirectory,
    mayStart: () => this.mayStart,
    connect: () => {
      const error = this.connectErrors.shift() ?? (this.pid ? undefined : new PalaceError("no daemon is running", "notRunning"));
      if (error) return Promise.reject(error);
      const link = new FakeLink(this, this.pid);
      this.links.push(link);
      return Promise.resolve(link);
    },
    launch: async () => {
      this.launches += 1;
      if (this.launchMs) await new Promise<void>((resolve) => this.clock.after(this.launchMs, resolve));
      const error = this.launchErrors.shift();
      if (error) throw error;
      this.start();
    },
    remainsOf: () => this.remains,
    clock: this.clock,
    log: (text) => this.logged.push(text),
  });

  constructor() {
    this.life.onDidChangeState((state) => this.states.push(state));
  }

  #pids = 100;

  answer(method: MethodName, _params: unknown, pid: number): unknown {
    if (method === "palace/status") return { pid, dataDir: this.dataDirectory };
    if (method === "palace/remember") return { isNew: true };
    return { hits: [], answeredBy: pid };
  }

  start(): void {
    this.pid ||= this.#pids += 1;
  }

  /** As `kill -9`: the socket stays. */
  kill(): void {
    this.#leave("socket");
  }

  /** As `palace-daemon stop`. */
  stop(): void {
    this.#leave("nothing");
  }

  #leave(remains: Remains): void {
    this.pid = 0;
    this.remains = remains;
    for (const link of this.links) link.close();
  }

  get link(): FakeLink {
    const newest = this.links.at(-1);
    if (!newest) throw new Error("nobody connected");
    return newest;
  }

  get kinds(): string[] {
    return this.states.map((state) => state.kind);
  }
}
