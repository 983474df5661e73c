/**
 * Loads the extension, of which the editor itself loads only what registers names, so that starting up takes no longer:
 *
 * - what reaches the daemon (daemon.ts), right after the activation;
 * - what shows it for as long as the window is open (following.ts), right after that;
 * - what a person or a chat calls for (onUse.ts), when it is called for first.
 *
 * esbuild.mjs makes a file of each `import()`, and of what several of them share. What is needed at activation imports
 * only types from there: test/unit/bundle.test.ts sees to it.
 */

import * as vscode from "vscode";

import type { Disposable } from "../core/palace";
import type { StartedPalace } from "./daemon";
import type { Following } from "./following";
import type { OnUse } from "./onUse";
import type { Parts, RunCommand } from "./parts";
import { readSettings } from "./settings";

interface Daemon extends Disposable {
  readonly palace: StartedPalace;
  readonly parts: Parts;
}

export class Loader implements vscode.Disposable {
  readonly #runs = new Map<string, RunCommand>();
  /** What was loaded, in the order in which it ends: who asks the daemon before what reaches it. */
  readonly #loaded: Disposable[] = [];
  readonly #daemon = once(() =>
    this.#load("what reaches the daemon", () => import("./daemon"), ({ registerDaemon, startDaemon }): Daemon => {
      const palace = startDaemon(this.context, this.log, readSettings);
      const parts = this.#parts(palace);
      const registered = registerDaemon(parts);
      const dispose = (): void => {
        registered.dispose();
        palace.dispose();
      };
      return { palace, parts, dispose };
    }),
  );
  #isDisposed = false;
  #installationEnded: (() => Promise<void>) | undefined;

  /** What shows the daemon. @throws Error in words for a person, where it cannot be loaded or the window closes. */
  readonly following: () => Promise<Following> = once(async () => {
    const { parts } = await this.#daemon();
    return await this.#load("what shows the daemon", () => import("./following"), ({ follow }) => follow(parts));
  });

  /** What is called for. @throws Error as `following` does. */
  readonly onUse: () => Promise<OnUse> = once(async () => {
    const { parts } = await this.#daemon();
    return await this.#load("what is called for", () => import("./onUse"), ({ installationEnded, registerOnUse }) => {
      this.#installationEnded = installationEnded;
      return registerOnUse(parts);
    });
  });

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
  ) {}

  /** Looks for the daemon and shows how it is. */
  async begin(): Promise<void> {
    try {
      const { palace } = await this.#daemon();
      palace.begin();
      await this.following();
    } catch (error) {
      this.#tell(error);
    }
  }

  /** Runs a command of package.json; what it throws is the command's own. */
  async run(name: string, argument: unknown): Promise<unknown> {
    try {
      if (!this.#runs.has(name)) await this.following();
      if (!this.#runs.has(name)) await this.onUse();
      if (!this.#runs.has(name)) throw new Error("This command does not work, since its part of Palace failed. Palace: Show Logs tells why.");
    } catch (error) {
      this.#tell(error);
    }
    return await this.#runs.get(name)?.(argument);
  }

  /** Resolved when nothing is being installed any more, and what was given up is removed. */
  async installationEnded(): Promise<void> {
    await this.#installationEnded?.();
  }

  dispose(): void {
    this.#isDisposed = true;
    for (const one of this.#loaded.splice(0)) one.dispose();
  }

  #parts(palace: StartedPalace): Parts {
    const command = (name: string, run: RunCommand): vscode.Disposable => {
      this.#runs.set(name, run);
      return new vscode.Disposable(() => this.#runs.delete(name));
    };
    return { palace, log: this.log, settings: readSettings, context: this.context, command, commandLine: () => palace.commandLine() };
  }

  async #load<Module, Made extends Disposable>(what: string, load: () => Promise<Module>, make: (module: Module) => Made): Promise<Made> {
    await new Promise((resolve) => setImmediate(resolve)); // others have their turn first
    this.#throwIfDisposed();
    const begunAt = performance.now();
    let module: Module;
    try {
      module = await load();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new Error(`A part of Palace cannot be loaded: ${what}. Install the extension again, then reload the window. (${reason})`, { cause: error });
    }
    this.#throwIfDisposed();
    const made = make(module);
    this.#loaded.unshift(made);
    // test/workbench/measure.ts reads this line.
    this.log.info(`Loaded ${what} in ${(performance.now() - begunAt).toFixed(1)} ms.`);
    return made;
  }

  #throwIfDisposed(): void {
    if (this.#isDisposed) throw new Error("The window is closing.");
  }

  #tell(error: unknown): void {
    if (this.#isDisposed) return;
    const words = error instanceof Error ? error.message : String(error);
    this.log.error(words);
    void vscode.window.showErrorMessage(words);
  }
}

/** Does it at the first call, and once; what failed is tried again at the next. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make().catch((error: unknown) => {
      made = undefined;
      throw error;
    });
    return made;
  };
}
