/** One connection to the daemon: typed requests that can be withdrawn, progress, and what the daemon tells by itself. */

import {
  CancellationTokenSource,
  createMessageConnection,
  ErrorCodes,
  ResponseError,
  StreamMessageReader,
  StreamMessageWriter,
  type Message,
  type MessageConnection,
} from "vscode-jsonrpc/node";

import { type Endpoint, isProof } from "./endpoint";
import { PalaceError } from "./errors";
import { type ErrorData, type HelloResult, type Methods, type Notifications, type ProgressValue, PROTOCOL_VERSION } from "./protocol";

export type MethodName = keyof Methods;
export type Params<M extends MethodName> = Methods[M]["params"];
export type Answer<M extends MethodName> = Methods[M]["result"];
export type EventName = keyof Notifications;

export interface RequestOptions {
  /** Withdraws the request: the daemon stops working on it, and the promise is rejected with kind `cancelled`. */
  readonly signal?: AbortSignal | undefined;
  /** Hears how far a long request is; only for those that take a `workDoneToken`. */
  readonly onProgress?: ((value: ProgressValue) => void) | undefined;
}

/** Until the daemon has greeted; it answers within milliseconds unless it hangs, or the machine is overloaded. */
const GREETING_MS = 10_000;
/** How long what is still being sent when a connection is closed may take. */
const CLOSING_MS = 2_000;
/** What the library says of a request that can have no answer any more. */
const LOST: ReadonlySet<number> = new Set([ErrorCodes.PendingResponseRejected, ErrorCodes.ConnectionInactive, ErrorCodes.MessageWriteError]);

let progressTokens = 0;

export class Connection {
  readonly #wire: MessageConnection;
  readonly #socket: Endpoint["socket"];
  /** Who hears of progress, by token: the library takes one listener for all. */
  readonly #progress = new Map<string, (value: ProgressValue) => void>();
  readonly #ended: Promise<void>;
  #hello: HelloResult | undefined;

  private constructor(endpoint: Endpoint) {
    const { socket } = endpoint;
    this.#socket = socket;
    this.#wire = createMessageConnection(new StreamMessageReader(socket), new Writer(socket));
    this.#ended = new Promise((resolve) => {
      socket.once("close", () => {
        this.#wire.dispose(); // rejects what is still asked
        resolve();
      });
    });
    socket.on("error", () => socket.destroy());
    this.#wire.onError(() => socket.destroy());
    this.#wire.onNotification("$/progress", ({ token, value }: { token: string; value: ProgressValue }) => this.#progress.get(token)?.(value));
    this.#wire.listen();
  }

  /**
   * Greets the daemon at the other end.
   *
   * @throws PalaceError `foreign` where it does not know the secret, `version` where it speaks another protocol,
   *   `deadline` where it says nothing for `limitMs`, `disconnected` where it went away.
   */
  static async greet(endpoint: Endpoint, limitMs = GREETING_MS): Promise<Connection> {
    const connection = new Connection(endpoint);
    const late = new AbortController();
    // Not a withdrawal: that would wait for the answer of a daemon that gives none.
    const limit = setTimeout(() => {
      late.abort();
      endpoint.socket.destroy();
    }, limitMs);
    try {
      const token = endpoint.secret ? { token: endpoint.secret.token } : {};
      const hello = await connection.request("palace/hello", token);
      if (endpoint.secret && !isProof(hello.proof, endpoint.secret.proof)) {
        throw new PalaceError("another program answers on the daemon's port", "foreign", "restart the daemon");
      }
      if (hello.protocolVersion !== PROTOCOL_VERSION) {
        throw new PalaceError(
          `the daemon is palace-daemon ${hello.version} and speaks protocol ${hello.protocolVersion}, this extension ${PROTOCOL_VERSION}`,
          "version",
          "bring extension and palace-daemon to one version",
        );
      }
      connection.#hello = hello;
      return connection;
    } catch (error) {
      connection.close();
      throw late.signal.aborted ? new PalaceError("the daemon does not answer", "deadline") : error;
    } finally {
      clearTimeout(limit);
    }
  }

  /** What the daemon said of itself. */
  get hello(): HelloResult {
    if (!this.#hello) throw new PalaceError("the daemon has not greeted yet", "disconnected");
    return this.#hello;
  }

  /** Resolved when the connection is over, whoever ended it. */
  get ended(): Promise<void> {
    return this.#ended;
  }

  /** @throws PalaceError with the daemon's own kind, `cancelled`, or `disconnected`. */
  async request<M extends MethodName>(method: M, params: Params<M>, options: RequestOptions = {}): Promise<Answer<M>> {
    const { signal, onProgress } = options;
    if (signal?.aborted) throw new PalaceError("the request was withdrawn", "cancelled");
    const source = new CancellationTokenSource();
    const withdraw = (): void => {
      source.cancel();
    };
    signal?.addEventListener("abort", withdraw, { once: true });
    const token = `editor-${++progressTokens}`;
    if (onProgress) this.#progress.set(token, onProgress);
    try {
      const whole = onProgress ? { ...params, workDoneToken: token } : params;
      return await this.#wire.sendRequest<Answer<M>>(method, whole, source.token);
    } catch (error) {
      throw asPalaceError(error);
    } finally {
      this.#progress.delete(token);
      signal?.removeEventListener("abort", withdraw);
      source.dispose();
    }
  }

  on<E extends EventName>(event: E, listener: (told: Notifications[E]) => void): { dispose(): void } {
    return this.#wire.onNotification(event, listener);
  }

  /** Ends the connection; the daemon lives on. One that does not hang up within `limitMs` is left alone. */
  close(limitMs = CLOSING_MS): void {
    this.#wire.end();
    this.#wire.dispose();
    if (this.#socket.destroyed) return;
    const limit = setTimeout(() => this.#socket.destroy(), limitMs);
    this.#socket.once("close", () => {
      clearTimeout(limit);
    });
  }
}

/**
 * Ends the connection where something cannot be sent, which rejects what is asked. The library does that itself, but
 * throws a second time where nobody can catch it.
 */
class Writer extends StreamMessageWriter {
  readonly #socket: Endpoint["socket"];

  constructor(socket: Endpoint["socket"]) {
    super(socket);
    this.#socket = socket;
  }

  override async write(message: Message): Promise<void> {
    try {
      await super.write(message);
    } catch {
      this.#socket.destroy();
    }
  }
}

function asPalaceError(error: unknown): unknown {
  if (error instanceof PalaceError) return error;
  if (error instanceof ResponseError) {
    if (LOST.has(error.code)) return new PalaceError("the connection to the daemon was lost", "disconnected");
    return PalaceError.from(error.message, error.data as Partial<ErrorData> | undefined);
  }
  return new PalaceError(error instanceof Error ? error.message : "the connection to the daemon was lost", "disconnected");
}
