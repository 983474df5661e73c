/**
 * The life of the daemon as one window sees it: found or started, lost and found again, stopped, started anew.
 *
 * One connection at a time. A run is what happens from a beginning (start of the window, a change of settings, a
 * person's restart) until the next one, which aborts it. A run looks for the daemon, starts one where that is wanted,
 * keeps the connection, and decides after a loss:
 *
 * - stopped in order by somebody else (remains.ts tells): it is not fought. For a few seconds another may come, after
 *   an upgrade or a restart; then the state is `off`.
 * - killed or crashed: it is started again, after a delay that doubles; five times in three minutes are enough.
 *
 * In `off`, `missing` and `failed` nothing is started, but a daemon that somebody else starts is still noticed.
 */

import * as path from "node:path";

import type { Answer, EventName, MethodName, Params, RequestOptions } from "./connection";
import { PalaceError } from "./errors";
import type { Disposable, Palace, State } from "./palace";
import type { Notifications } from "./protocol";
import type { Remains } from "./remains";
import { isLost, isRead, lostWrite, unless } from "./requests";
import { pause, type Clock } from "./timing";

/** A connection, as far as this module needs one. */
export interface Link {
  readonly hello: { readonly version: string };
  readonly ended: Promise<void>;
  request<M extends MethodName>(method: M, params: Params<M>, options?: RequestOptions): Promise<Answer<M>>;
  on<E extends EventName>(event: E, listener: (told: Notifications[E]) => void): Disposable;
  close(): void;
}

export interface LifeOptions {
  /** Read at each beginning. */
  readonly dataDirectory: () => string;
  /** Whether a daemon may be started without a person's command. */
  readonly mayStart: () => boolean;
  /** @throws PalaceError `notRunning`, `foreign`, `version`, `disconnected` */
  readonly connect: (dataDirectory: string) => Promise<Link>;
  /** @throws PalaceError `missing` where no Python has the package; others where it does not start */
  readonly launch: (dataDirectory: string, signal: AbortSignal) => Promise<void>;
  readonly remainsOf: (dataDirectory: string, pid: number) => Remains;
  readonly clock: Clock;
  /** Hears what happens, without contents. */
  readonly log: (text: string) => void;
}

export const RETRY_FIRST_MS = 250;
export const RETRY_LONGEST_MS = 30_000;
export const LOSSES_MAX = 5;
export const LOSSES_WITHIN_MS = 180_000;
/** How long the process of a daemon that hung up may take to end: it ends itself by force after two seconds. */
const ENDING_MS = 3_000;
/** How long another may take to come after one was stopped. */
export const RETURN_MS = 5_000;
/** How often a window that does not start one looks for one. */
export const LOOK_MS = 5_000;
const POLL_MS = 50;
const STOP_MS = 5_000;
/** Errors that pass by themselves. */
const PASSING = new Set(["storeBusy", "deadline"]);

interface Reached {
  readonly link: Link;
  readonly pid: number;
  readonly dataDirectory: string;
}

interface Waiter {
  resolve(link: Link): void;
  reject(error: PalaceError): void;
}

type Resting = Extract<State, { kind: "missing" | "failed" | "off" }>;

export class Life implements Palace {
  readonly #options: LifeOptions;
  readonly #listeners = new Set<(state: State) => void>();
  readonly #events = new Map<EventName, Set<(told: never) => void>>();
  readonly #waiters = new Set<Waiter>();
  #state: State = { kind: "connecting" };
  #run = new AbortController();
  /** The connection that requests go to. */
  #link: Link | undefined;
  #pid = 0;
  /** When the last losses were. */
  #losses: number[] = [];
  /** How often in a row it was not reached. */
  #attempts = 0;
  #restarting: Promise<void> | undefined;
  #queued: Promise<void> | undefined;
  #isDisposed = false;

  constructor(options: LifeOptions) {
    this.#options = options;
  }

  get state(): State {
    return this.#state;
  }

  onDidChangeState(listener: (state: State) => void): Disposable {
    this.#listeners.add(listener);
    return { dispose: () => this.#listeners.delete(listener) };
  }

  on<E extends EventName>(event: E, listener: (told: Notifications[E]) => void): Disposable {
    const known = this.#events.get(event) ?? new Set();
    this.#events.set(event, known.add(listener));
    return { dispose: () => known.delete(listener) };
  }

  /** Begins anew with the settings of now, and with what was lost before forgotten. */
  begin(): void {
    if (this.#isDisposed) return;
    this.#link?.close();
    void this.#live(this.#newRun(), false);
  }

  restart(): Promise<void> {
    if (!this.#restarting) {
      this.#restarting = this.#restart().finally(() => {
        this.#restarting = undefined;
      });
      return this.#restarting;
    }
    this.#queued ??= this.#restarting
      .catch(() => undefined)
      .then(() => {
        this.#queued = undefined;
        return this.restart();
      });
    return this.#queued;
  }

  /** Ends the connection; the daemon lives on. */
  dispose(): void {
    this.#isDisposed = true;
    this.#run.abort();
    this.#link?.close();
    this.#link = undefined;
    this.#refuse(new PalaceError("the window is closing", "cancelled"));
    this.#listeners.clear();
    this.#events.clear();
  }

  // -------------------------------------------------------------------------------------------------- requests

  async request<M extends MethodName>(method: M, params: Params<M>, options: RequestOptions = {}): Promise<Answer<M>> {
    const repeats = isRead(method, params);
    for (let attempt = 1; ; attempt += 1) {
      const link = await this.#reachable(options.signal);
      try {
        return await (repeats ? unless(options.signal, link.request(method, params, options)) : link.request(method, params, options));
      } catch (error) {
        if (!isLost(error)) throw error;
        if (this.#link === link) this.#link = undefined; // whatever comes next waits for another one
        if (!repeats) throw lostWrite();
        if (attempt > 1) throw error;
      }
    }
  }

  /** The connection, once there is one. */
  #reachable(signal: AbortSignal | undefined): Promise<Link> {
    if (signal?.aborted) return Promise.reject(new PalaceError("the request was withdrawn", "cancelled"));
    if (this.#link) return Promise.resolve(this.#link);
    if (this.#isDisposed) return Promise.reject(new PalaceError("the window is closing", "cancelled"));
    if (isResting(this.#state)) return Promise.reject(notRunning(this.#state));
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiters.delete(waiter);
        signal?.removeEventListener("abort", withdraw);
      };
      const withdraw = (): void => {
        waiter.reject(new PalaceError("the request was withdrawn", "cancelled"));
      };
      const waiter: Waiter = {
        resolve: (link) => {
          leave();
          resolve(link);
        },
        reject: (error) => {
          leave();
          reject(error);
        },
      };
      this.#waiters.add(waiter);
      signal?.addEventListener("abort", withdraw, { once: true });
    });
  }

  #refuse(error: PalaceError): void {
    for (const waiter of [...this.#waiters]) waiter.reject(error);
  }

  // ------------------------------------------------------------------------------------------------------- runs

  #newRun(): AbortSignal {
    this.#run.abort();
    this.#run = new AbortController();
    this.#link = undefined;
    this.#losses = [];
    this.#attempts = 0;
    return this.#run.signal;
  }

  /**
   * @param isWanted Whether a person asked for a daemon: then one is started whatever the settings say.
   * @param resting The state to begin with, until a daemon comes by itself.
   */
  async #live(run: AbortSignal, isWanted: boolean, resting?: Resting): Promise<void> {
    try {
      let reached = resting && (await this.#rest(run, resting));
      for (;;) {
        reached ??= await this.#reachOrRest(run, isWanted);
        await this.#serve(run, reached);
        reached = await this.#afterLoss(run, reached);
      }
    } catch (error) {
      if (run.aborted) return;
      this.#options.log(`looking for the daemon ended: ${error instanceof Error ? error.name : "unknown"}`);
      this.#set({ kind: "failed", reason: error instanceof Error ? error.message : String(error), hint: "restart the daemon" });
    }
  }

  async #reachOrRest(run: AbortSignal, isWanted: boolean): Promise<Reached> {
    for (;;) {
      try {
        return await this.#reach(run, isWanted || this.#options.mayStart());
      } catch (error) {
        run.throwIfAborted();
        const rest = this.#restAfter(error);
        if (rest) return await this.#rest(run, rest);
        await this.#wait(run, error instanceof Error ? error.message : String(error));
      }
    }
  }

  /** Connects, and starts a daemon if there is none and one is wanted, or if the one there is of another protocol. */
  async #reach(run: AbortSignal, isStarted: boolean, isQuiet = false): Promise<Reached> {
    const dataDirectory = this.#options.dataDirectory();
    if (!isQuiet) this.#set({ kind: "connecting" });
    let link: Link;
    try {
      link = await this.#options.connect(dataDirectory);
    } catch (error) {
      run.throwIfAborted();
      const kind = error instanceof PalaceError ? error.kind : "";
      if (!isStarted || (kind !== "notRunning" && kind !== "version")) throw error;
      link = await this.#started(run, dataDirectory);
    }
    try {
      run.throwIfAborted();
      // Hears whether the store can be opened: a daemon that cannot do that ends at once, in order.
      const status = await unless(run, link.request("palace/status", {}));
      return { link, pid: status.pid, dataDirectory: status.dataDir };
    } catch (error) {
      link.close();
      throw error;
    }
  }

  async #started(run: AbortSignal, dataDirectory: string): Promise<Link> {
    this.#set({ kind: "starting" });
    const begunAt = this.#options.clock.now();
    await this.#options.launch(dataDirectory, run);
    this.#options.log(`started in ${Math.round(this.#options.clock.now() - begunAt)} ms`);
    run.throwIfAborted();
    try {
      return await this.#options.connect(dataDirectory);
    } catch (error) {
      if (!(error instanceof PalaceError) || error.kind !== "notRunning") throw error;
      throw new PalaceError("the daemon ended as soon as it had started", "disconnected");
    }
  }

  /** Keeps the connection until it is over. */
  async #serve(run: AbortSignal, reached: Reached): Promise<void> {
    const { link } = reached;
    if (run.aborted) link.close();
    run.throwIfAborted();
    const hearing = (["palace/didMine", "palace/didChangeStatus"] as const).map((event) => this.#hear(link, event));
    this.#link = link;
    this.#pid = reached.pid;
    const readyAt = this.#options.clock.now();
    this.#set({ kind: "ready", version: link.hello.version, dataDirectory: reached.dataDirectory });
    // After the state, so that what the daemon tells at once finds everybody ready.
    link.request("palace/subscribe", { events: ["didMine", "didChangeStatus"] }).catch(() => {
      link.close(); // without news the window would show old figures: rather look again
    });
    for (const waiter of [...this.#waiters]) waiter.resolve(link);
    await endedOrAborted(link.ended, run);
    for (const one of hearing) one.dispose();
    if (this.#options.clock.now() - readyAt > LOSSES_WITHIN_MS) this.#attempts = 0;
    run.throwIfAborted(); // then it is another run's link by now
    this.#link = undefined;
  }

  #hear(link: Link, event: EventName): Disposable {
    return link.on(event, (told) => {
      for (const listener of this.#events.get(event) ?? []) this.#tell(listener as (told: unknown) => void, told);
    });
  }

  // ------------------------------------------------------------------------------------------------------ losses

  /** Returns the next daemon, where another one came by itself; else nothing, after the wait. */
  async #afterLoss(run: AbortSignal, lost: Reached): Promise<Reached | undefined> {
    this.#set({ kind: "connecting" });
    if ((await this.#remains(run, lost)) === "nothing") return await this.#afterStop(run);
    const other = await this.#quietly(run);
    if (other && other.pid !== lost.pid) return other; // another window was faster
    other?.link.close();
    run.throwIfAborted();
    this.#options.log(other ? "the daemon hung up" : "the daemon ended without having been asked to");
    const rest = this.#restAfter(new PalaceError("the daemon ended", "disconnected"));
    if (rest) return await this.#rest(run, rest);
    await this.#wait(run, "the daemon ended");
    return undefined;
  }

  async #remains(run: AbortSignal, lost: Reached): Promise<Remains> {
    const { clock } = this.#options;
    for (const until = clock.now() + ENDING_MS; ; ) {
      const remains = this.#options.remainsOf(lost.dataDirectory, lost.pid);
      if (remains !== "process" || clock.now() >= until) return remains;
      await pause(clock, POLL_MS, run);
      run.throwIfAborted();
    }
  }

  async #afterStop(run: AbortSignal): Promise<Reached> {
    const { clock } = this.#options;
    this.#options.log("the daemon was stopped");
    for (const until = clock.now() + RETURN_MS; clock.now() < until; ) {
      const other = await this.#quietly(run);
      if (other) return other;
      await pause(clock, RETRY_FIRST_MS, run);
    }
    return await this.#rest(run, { kind: "off", reason: "the daemon was stopped" });
  }

  /** Takes the state, and returns the daemon that somebody else starts, whenever that is. */
  async #rest(run: AbortSignal, state: Resting): Promise<Reached> {
    this.#set(state);
    this.#refuse(notRunning(state));
    for (;;) {
      await pause(this.#options.clock, LOOK_MS, run);
      run.throwIfAborted();
      const other = await this.#quietly(run);
      if (other) return other;
    }
  }

  async #quietly(run: AbortSignal): Promise<Reached | undefined> {
    try {
      return await this.#reach(run, false, true);
    } catch {
      run.throwIfAborted();
      return undefined; // none is there, or none of use: the state says it already
    }
  }

  async #wait(run: AbortSignal, reason: string): Promise<void> {
    const retryInMs = Math.min(RETRY_LONGEST_MS, RETRY_FIRST_MS * 2 ** Math.max(0, this.#attempts - 1));
    this.#set({ kind: "waiting", retryInMs, reason });
    await pause(this.#options.clock, retryInMs, run);
    run.throwIfAborted();
  }

  /** The state to stay in after `error`; none where it is worth another try. Counts the tries. */
  #restAfter(error: unknown): Resting | undefined {
    this.#attempts += 1;
    if (isLost(error)) {
      const now = this.#options.clock.now();
      this.#losses = [...this.#losses.filter((at) => now - at < LOSSES_WITHIN_MS), now];
      if (this.#losses.length < LOSSES_MAX) return undefined;
      return { kind: "failed", reason: "the daemon ended five times in three minutes", hint: "the logs may say why; then restart the daemon" };
    }
    if (!(error instanceof PalaceError)) return { kind: "failed", reason: error instanceof Error ? error.message : String(error), hint: "" };
    if (PASSING.has(error.kind)) return undefined;
    if (error.kind === "notRunning") return { kind: "off", reason: "no daemon is running, and the setting palace.startDaemon starts none" };
    return { kind: error.kind === "missing" ? "missing" : "failed", reason: error.message, hint: error.hint };
  }

  // ----------------------------------------------------------------------------------------------------- restart

  async #restart(): Promise<void> {
    if (this.#isDisposed) return;
    const link = this.#link;
    const run = this.#newRun();
    this.#set({ kind: "starting" });
    try {
      await this.#stop(run, link);
    } catch (error) {
      if (run.aborted || !(error instanceof PalaceError)) throw error;
      const state: Resting = { kind: "failed", reason: error.message, hint: error.hint };
      void this.#live(run, true, state);
      throw error;
    }
    const arrived = this.#arrival(run);
    void this.#live(run, true);
    await arrived;
  }

  /** Asks the daemon to end and waits until it hangs up; that none is there is no failure. */
  async #stop(run: AbortSignal, known: Link | undefined): Promise<void> {
    let link = known;
    const dataDirectory = this.#options.dataDirectory();
    try {
      link ??= await this.#options.connect(dataDirectory);
    } catch (error) {
      // None runs, or none that listens to us: starting will tell. One that hangs would keep any other from starting.
      if (!(error instanceof PalaceError) || error.kind !== "deadline") return;
      throw new PalaceError("the daemon does not answer", "daemon", `end its process, whose number stands in ${path.join(dataDirectory, "daemon.lock")}, then restart the daemon`);
    }
    link.request("palace/stop", {}).catch(() => undefined); // it may hang up before it has answered
    const limit = pause(this.#options.clock, STOP_MS, run).then(() => "late" as const);
    const how = await Promise.race([link.ended.then(() => "ended" as const), limit]);
    link.close();
    if (how === "late" && !run.aborted) {
      throw new PalaceError("the daemon does not stop", "daemon", this.#pid ? `end process ${this.#pid}, then restart the daemon` : "end its process");
    }
  }

  /** Resolved when the run has a daemon or another run takes its place, rejected when it has to do without. */
  #arrival(run: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (run.aborted) {
        resolve();
        return;
      }
      const listening = this.onDidChangeState((state) => {
        if (state.kind === "ready") done(resolve);
        else if (isResting(state)) {
          done(() => {
            reject(notRunning(state));
          });
        }
      });
      const superseded = (): void => {
        done(resolve);
      };
      const done = (then: () => void): void => {
        listening.dispose();
        run.removeEventListener("abort", superseded);
        then();
      };
      run.addEventListener("abort", superseded, { once: true });
    });
  }

  #set(state: State): void {
    if (JSON.stringify(state) === JSON.stringify(this.#state)) return;
    this.#state = state;
    for (const listener of [...this.#listeners]) this.#tell(listener, state);
  }

  /** A fault of one who listens must not end what the others need. */
  #tell<T>(listener: (told: T) => void, told: T): void {
    try {
      listener(told);
    } catch (error) {
      this.#options.log(`a listener failed: ${error instanceof Error ? error.message : "unknown"}`);
    }
  }
}

function isResting(state: State): state is Resting {
  return state.kind === "missing" || state.kind === "failed" || state.kind === "off";
}

function notRunning(state: Resting): PalaceError {
  if (state.kind === "off") return new PalaceError(state.reason ?? "no daemon is running", "notRunning", "the command Palace: Restart Daemon starts it");
  return new PalaceError(state.reason, "notRunning", state.hint);
}

function endedOrAborted(ended: Promise<void>, run: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      run.removeEventListener("abort", done);
      resolve();
    };
    run.addEventListener("abort", done, { once: true });
    if (run.aborted) done();
    void ended.then(done);
  });
}
