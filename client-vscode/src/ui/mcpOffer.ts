/** Palace's MCP server as the editor may start it: only where the Python that runs the daemon has the MCP SDK. */

import * as vscode from "vscode";

import { inWords } from "../core/errors";
import { rootOf, run as runProgram, type Run } from "../core/processes";
import type { MakeServer, McpServer, McpServerProvider } from "./newerVscode";
import type { Parts } from "./parts";

const LABEL = "Palace";
/** Looking is quick, while importing the SDK takes a second. */
const PROBE = "import sys; from importlib.util import find_spec; sys.exit(find_spec('mcp') is None)";
const PROBE_MS = 20_000;

interface Offered {
  readonly commandLine: readonly string[];
  readonly version: string;
}

/** Looks each time the daemon becomes ready, since that is when the program may be another one; never in between. */
export class McpOffer implements McpServerProvider, vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #listening: { dispose(): void };
  readonly #withdrawal = new AbortController();
  #offered: Offered | undefined;
  readonly onDidChangeMcpServerDefinitions = this.#changed.event;

  constructor(
    private readonly parts: Parts,
    private readonly make: MakeServer,
    private readonly run: Run = runProgram,
  ) {
    const look = (): void => {
      const { state } = parts.palace;
      if (state.kind === "ready") void this.#look(state.version);
    };
    this.#listening = parts.palace.onDidChangeState(look);
    look();
  }

  provideMcpServerDefinitions(): Promise<McpServer[]> {
    return Promise.resolve(this.#offered ? [this.#server(this.#offered)] : []);
  }

  /** Asked just before the server is started: with the program as it is now, the settings may have changed. */
  async resolveMcpServerDefinition(server: McpServer): Promise<McpServer | undefined> {
    const now = await this.#find(server.version ?? "");
    return now && this.#server(now);
  }

  dispose(): void {
    this.#withdrawal.abort();
    this.#listening.dispose();
    this.#changed.dispose();
  }

  async #look(version: string): Promise<void> {
    const found = await this.#find(version);
    if (this.#withdrawal.signal.aborted) return;
    const isSame = JSON.stringify(found) === JSON.stringify(this.#offered);
    this.#offered = found;
    if (!isSame) this.#changed.fire();
  }

  async #find(version: string): Promise<Offered | undefined> {
    try {
      const commandLine = await this.parts.commandLine();
      const python = commandLine.slice(0, Math.max(1, commandLine.indexOf("-m")));
      const { signal } = this.#withdrawal;
      const ran = await this.run([...python, "-c", PROBE], { cwd: rootOf(python), signal, limitMs: PROBE_MS });
      if (ran.code === 0) return { commandLine, version };
      this.parts.log.debug("Palace's MCP server is not offered to the chat: its Python has no MCP SDK.");
    } catch (error) {
      this.parts.log.debug(`Palace's MCP server is not offered to the chat. ${inWords(error)}`);
    }
    return undefined;
  }

  #server({ commandLine, version }: Offered): McpServer {
    const [program = "", ...words] = commandLine;
    const server = new this.make(LABEL, program, [...words, "mcp"], {}, version);
    // Python looks for modules where it runs: that must not be a workspace.
    server.cwd = vscode.Uri.file(rootOf(commandLine));
    return server;
  }
}
