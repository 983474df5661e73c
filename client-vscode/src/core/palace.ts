/** What the editor's parts ask of the daemon, whoever started it and however often it came back. */

import type { Answer, EventName, MethodName, Params, RequestOptions } from "./connection";
import type { Notifications } from "./protocol";

/** Whether there is a daemon to ask, and if not, why. */
export type State =
  | { readonly kind: "connecting" }
  | { readonly kind: "starting" }
  | { readonly kind: "ready"; readonly version: string; readonly dataDirectory: string }
  /** It was lost and is tried again by itself. */
  | { readonly kind: "waiting"; readonly retryInMs: number; readonly reason: string }
  /** No Python with the package was found. */
  | { readonly kind: "missing"; readonly reason: string; readonly hint: string }
  /** It does not start, or crashed five times in three minutes; only a person's command tries again. */
  | { readonly kind: "failed"; readonly reason: string; readonly hint: string }
  /** Nobody wants one started, and none runs; `reason` says whether somebody stopped it. */
  | { readonly kind: "off"; readonly reason?: string };

export interface Disposable {
  dispose(): void;
}

export interface Palace {
  readonly state: State;
  /**
   * Asks, once the daemon is there; while it is being reached the request waits.
   *
   * @throws PalaceError with the daemon's kind; `cancelled`; `notRunning` where the state is `missing`, `failed` or
   *   `off`; `disconnected` where the daemon went away meanwhile (recall and other reads are then asked once more).
   */
  request<M extends MethodName>(method: M, params: Params<M>, options?: RequestOptions): Promise<Answer<M>>;
  onDidChangeState(listener: (state: State) => void): Disposable;
  /** Hears what the daemon tells; survives restarts of the daemon. */
  on<E extends EventName>(event: E, listener: (told: Notifications[E]) => void): Disposable;
  /** Ends the daemon, if one runs, and starts it anew; also the way out of `failed`, `off` and `missing`. */
  restart(): Promise<void>;
}
