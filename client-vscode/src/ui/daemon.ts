/**
 * The daemon and the editor: with which Python it is started, what changes of the settings do, the commands around it,
 * and what a person is told of it.
 *
 * The settings that choose programs and data (`palace.python`, `palace.dataDirectory`, `palace.startDaemon`) have the
 * scope `machine` and are restricted in package.json: VS Code itself leaves out what a folder says about them, trusted
 * or not, so that nothing need be checked here.
 */

import { existsSync } from "node:fs";
import * as path from "node:path";

import * as vscode from "vscode";

import { packageOf } from "../core/broughtPackage";
import type { Connection } from "../core/connection";
import * as endpoint from "../core/endpoint";
import { inWords, isCancelled, PalaceError } from "../core/errors";
import { launch } from "../core/launch";
import { Life } from "../core/life";
import { isFirstToTell } from "../core/onceAmongWindows";
import type { Palace, State } from "../core/palace";
import * as places from "../core/places";
import { findPython, type Finding, type FindOptions, type FoundPython, privateEnvironment } from "../core/python";
import { remainsOf } from "../core/remains";
import { pause, realClock } from "../core/timing";
import { isNewer } from "../core/versions";
import type { Parts } from "./parts";
import { interpreter } from "./pythonExtension";
import type { Settings } from "./settings";

/** The daemon, and what the editor adds to it: when it is looked for, and with which program. */
export interface StartedPalace extends Palace {
  /** Begins to look for the daemon, and starts one if the settings say so. */
  begin(): void;
  /** As {@link Parts.commandLine}. */
  commandLine(): Promise<readonly string[]>;
  /** Ends the connection; the daemon lives on. */
  dispose(): void;
}

const APPLYING = ["palace.python", "palace.dataDirectory", "palace.startDaemon"];

class EditorPalace extends Life implements StartedPalace {
  readonly #programs: Programs;
  readonly #dataDirectory: () => string;
  readonly #listening: vscode.Disposable;
  #hasBegun = false;

  constructor(programs: Programs, log: vscode.LogOutputChannel, settings: () => Settings) {
    const dataDirectory = (): string => chosenDirectory(settings());
    const loadConnection = connectionLoader(log);
    super({
      dataDirectory,
      mayStart: () => settings().startDaemon,
      connect: async (data) => {
        const found = await endpoint.connect(data);
        return await (await loadConnection()).greet(found);
      },
      launch: async (data, signal) => {
        programs.forget(); // what was installed or removed since the last start counts
        await launch({ commandLine: await programs.commandLine(data, { wakes: true, signal }), env: programEnvironment(), signal });
      },
      remainsOf,
      clock: realClock,
      log: (text) => {
        log.info(text);
      },
    });
    this.#programs = programs;
    this.#dataDirectory = dataDirectory;
    this.#listening = vscode.Disposable.from(
      this.onDidChangeState(followState(log)),
      vscode.workspace.onDidChangeConfiguration((change) => {
        if (!APPLYING.some((name) => change.affectsConfiguration(name))) return;
        programs.forget();
        if (this.#hasBegun) super.begin();
      }),
      // The interpreter of the Python extension counts from now on.
      vscode.workspace.onDidGrantWorkspaceTrust(() => {
        if (this.state.kind === "missing") super.begin();
      }),
    );
    void vscode.commands.executeCommand("setContext", "palace.state", this.state.kind);
  }

  override begin(): void {
    this.#hasBegun = true;
    super.begin();
  }

  async commandLine(): Promise<readonly string[]> {
    try {
      return await this.#programs.commandLine(this.#dataDirectory(), { wakes: false });
    } catch (error) {
      if (error instanceof PalaceError && !isCancelled(error)) throw new PalaceError(error.message, "notRunning", error.hint);
      throw error;
    }
  }

  override dispose(): void {
    this.#listening.dispose();
    super.dispose();
  }
}

/**
 * The data directory that the settings choose.
 *
 * @throws PalaceError `config` where it is no whole path: what it means would depend on how the window was opened.
 */
function chosenDirectory({ dataDirectory }: Settings): string {
  if (dataDirectory && !path.isAbsolute(dataDirectory) && !/^~(?:\/|$)/.test(dataDirectory)) {
    throw new PalaceError(`the setting palace.dataDirectory is not an absolute path: ${dataDirectory}`, "config", "give the whole path, or clear the setting");
  }
  return places.dataDirectory(dataDirectory);
}

/** Loads the connection and its library, which are needed only where there is a daemon; the first time is told in the log. */
function connectionLoader(log: vscode.LogOutputChannel): () => Promise<typeof Connection> {
  let isLoaded = false;
  return async () => {
    const begunAt = performance.now();
    const { Connection: loaded } = await import("../core/connection");
    // test/workbench/measure.ts reads this line.
    if (!isLoaded) log.info(`Loaded the connection in ${(performance.now() - begunAt).toFixed(1)} ms.`);
    isLoaded = true;
    return loaded;
  };
}

/** Makes what reaches the daemon; nothing is done before `begin`. */
export function startDaemon(context: vscode.ExtensionContext, log: vscode.LogOutputChannel, settings: () => Settings): StartedPalace {
  return new EditorPalace(new Programs(context, log, settings), log, settings);
}

/** What other programs are given: not the editor's own variables, which the daemon would keep for its whole life. */
export function programEnvironment(): places.Environment {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(?:VSCODE|ELECTRON)_/.test(name)));
}

/** Where Python is looked for in this window; `wakes` as in {@link interpreter}. */
export async function findOptions(context: vscode.ExtensionContext, settings: Settings, wakes = true): Promise<FindOptions> {
  const storage = context.globalStorageUri.fsPath;
  // Waking the Python extension takes a while, so only where what comes before it is not there.
  const isNeeded = !settings.python && !existsSync(privateEnvironment(storage));
  return { setting: settings.python, storage, interpreter: isNeeded ? await interpreter({ wakes }) : "", env: programEnvironment() };
}

interface Looking {
  /** Whether the Python extension is woken even if one of the PATH would do: to start the daemon, its own comes first. */
  readonly wakes: boolean;
  readonly signal?: AbortSignal | undefined;
}

/** The Python that runs the daemon, found once and kept until something changes. */
class Programs {
  #python: Promise<FoundPython> | undefined;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
    private readonly settings: () => Settings,
  ) {}

  forget(): void {
    this.#python = undefined;
  }

  /** @throws PalaceError `missing`, `config`, `cancelled` */
  async commandLine(dataDirectory: string, { wakes, signal }: Looking): Promise<readonly string[]> {
    for (;;) {
      const isOurs = this.#python === undefined;
      const finding = (this.#python ??= this.#find({ wakes, signal }));
      try {
        return [(await finding).executable, "-m", "palace_daemon", "--data-dir", dataDirectory];
      } catch (error) {
        if (this.#python === finding) this.#python = undefined;
        // What somebody else began and gave up is none of ours.
        if (isOurs || !isCancelled(error) || signal?.aborted) throw error;
      }
    }
  }

  async #find({ wakes, signal }: Looking): Promise<FoundPython> {
    const finding = await findPython({ ...(await findOptions(this.context, this.settings(), wakes)), signal });
    if (!finding.found && !wakes) return await this.#find({ wakes: true, signal });
    for (const { candidate, reason } of finding.rejected) this.log.info(`not used, from ${candidate.origin}: ${reason}`);
    if (!finding.found) throw missing(finding);
    this.log.info(`palace-daemon ${finding.found.daemonVersion} with ${finding.found.executable}, from ${finding.found.origin}`);
    return finding.found;
  }
}

function missing(finding: Finding): PalaceError {
  const hint = finding.installers.length
    ? "the command Palace: Install the Daemon… installs it"
    : "install Python 3.11 or later with its module venv, then run the command Palace: Install the Daemon…";
  return new PalaceError("no Python with the package palace-daemon was found on this machine", "missing", hint);
}

function followState(log: vscode.LogOutputChannel): (state: State) => void {
  let since = Date.now();
  return (state) => {
    const version = state.kind === "ready" ? `, palace-daemon ${state.version}` : "";
    const reason = "reason" in state && state.reason ? `: ${state.reason}` : "";
    log.info(`state ${state.kind}${version}${reason} (after ${Date.now() - since} ms)`);
    since = Date.now();
    void vscode.commands.executeCommand("setContext", "palace.state", state.kind);
  };
}

// ------------------------------------------------------------------------------------------ commands and messages

const RESTART = "Restart Daemon";
const INSTALL = "Install…";
const CHOOSE = "Choose Python";
const LOGS = "Show Logs";
const UPGRADE = "Upgrade";
const TOLD_MISSING = "palace.toldMissing";
const TOLD_UPGRADE = "palace.toldUpgrade";
/** How long a window that nobody looks at leaves it to others to tell of a failure. */
const BEHIND_MS = 1_000;

/** Registers the commands around the daemon, and tells a person once what is wrong with it. */
export function registerDaemon(parts: Parts): vscode.Disposable {
  const closing = new AbortController();
  const teller = new Teller(parts, closing.signal);
  return vscode.Disposable.from(
    parts.command("palace.restartDaemon", () => told(parts, () => restart(parts, teller))),
    parts.command("palace.showLogs", () => told(parts, () => showLogs(parts))),
    parts.palace.onDidChangeState((state) => {
      teller.hear(state);
    }),
    new vscode.Disposable(() => {
      closing.abort();
    }),
  );
}

/** Runs a command; what goes wrong is told to the person and in the log. */
export async function told(parts: Parts, run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (isCancelled(error)) return;
    parts.log.error(inWords(error));
    void vscode.window.showErrorMessage(inWords(error));
  }
}

async function restart(parts: Parts, teller: Teller): Promise<void> {
  teller.isAsked = true;
  try {
    await vscode.window.withProgress({ location: vscode.ProgressLocation.Window, title: "Starting Palace's daemon" }, () => parts.palace.restart());
    // A change of the settings may have taken its place.
    if (parts.palace.state.kind === "ready") vscode.window.setStatusBarMessage("Palace's daemon is running", 5_000);
  } catch (error) {
    // The teller said it already, with buttons, unless it is of another kind.
    if (!isTroubled(parts.palace.state)) throw error;
  } finally {
    teller.isAsked = false;
  }
}

type Troubled = Extract<State, { kind: "missing" | "failed" }>;

function isTroubled(state: State): state is Troubled {
  return state.kind === "missing" || state.kind === "failed";
}

/**
 * Tells a person of a failure: once for each cause, and again only after a command of theirs met it.
 *
 * All windows share the daemon and meet its failures at the same moment. One of them tells: the one in front, or any
 * other where a person looks at none of them. The status bar of each shows the failure in any case.
 */
class Teller {
  readonly #told = new Set<string>();
  /** Whether a person's command is under way. */
  isAsked = false;

  constructor(
    private readonly parts: Parts,
    private readonly closing: AbortSignal,
  ) {}

  hear(state: State): void {
    if (state.kind === "ready") this.#offerUpgrade(state.version);
    if (!isTroubled(state)) return;
    const cause = `${state.kind} ${state.reason}`;
    if (this.#told.has(cause) && !this.isAsked) return;
    this.#told.add(cause);
    this.#tellOnce(state, cause, this.isAsked).catch((error: unknown) => {
      this.parts.log.error(inWords(error));
    });
  }

  async #tellOnce(state: Troubled, cause: string, isAsked: boolean): Promise<void> {
    if (!isAsked && !vscode.window.state.focused) {
      await pause(realClock, BEHIND_MS, this.closing);
      if (this.closing.aborted || !isTroubled(this.parts.palace.state)) return;
    }
    const isFirst = isFirstToTell(path.join(this.parts.context.globalStorageUri.fsPath, "told"), cause);
    if (!isAsked && (!isFirst || (state.kind === "missing" && !this.#isFirst(TOLD_MISSING, this.#extensionVersion)))) return;
    await this.#tell(state, inWords(new PalaceError(state.reason, state.kind, state.hint)));
  }

  get #extensionVersion(): string {
    return String((this.parts.context.extension.packageJSON as { version?: unknown }).version);
  }

  /** Whether `value` was never told on this machine; windows that start later say nothing more of it. */
  #isFirst(key: string, value: string): boolean {
    if (this.parts.context.globalState.get(key) === value) return false;
    void this.parts.context.globalState.update(key, value);
    return true;
  }

  async #tell(state: Troubled, words: string): Promise<void> {
    const isOfPython = state.kind === "missing" || words.includes("palace.python");
    const chosen =
      state.kind === "missing"
        ? await vscode.window.showInformationMessage(words, INSTALL, CHOOSE, LOGS)
        : await vscode.window.showErrorMessage(words, ...(isOfPython ? [CHOOSE, INSTALL, LOGS] : [RESTART, LOGS]));
    await follow(chosen);
  }

  #offerUpgrade(version: string): void {
    const { context } = this.parts;
    const brought = packageOf(context.extensionPath)?.version ?? "";
    const isOurs = !this.parts.settings().python && existsSync(privateEnvironment(context.globalStorageUri.fsPath));
    if (!isOurs || !isNewer(brought, version) || !this.#isFirst(TOLD_UPGRADE, brought)) return;
    const words = `This version of the extension brings palace-daemon ${brought}; ${version} is running.`;
    vscode.window.showInformationMessage(words, UPGRADE, "Not Now").then(follow, () => undefined);
  }
}

async function follow(chosen: string | undefined): Promise<void> {
  if (chosen === RESTART) await vscode.commands.executeCommand("palace.restartDaemon");
  if (chosen === INSTALL || chosen === UPGRADE) await vscode.commands.executeCommand("palace.installDaemon");
  if (chosen === CHOOSE) await vscode.commands.executeCommand("workbench.action.openSettings", "palace.python");
  if (chosen === LOGS) await vscode.commands.executeCommand("palace.showLogs");
}

/** The extension's own log; with the daemon's, where there is one, to choose from. */
async function showLogs(parts: Parts): Promise<void> {
  const { state } = parts.palace;
  const data = state.kind === "ready" ? state.dataDirectory : chosenDirectory(parts.settings());
  const file = places.logFile(data);
  if (!existsSync(file)) {
    parts.log.show();
    return;
  }
  const ours = { label: "$(output) Extension", description: "what happened in this window" };
  const theirs = { label: "$(file) Daemon", description: file };
  const chosen = await vscode.window.showQuickPick([ours, theirs], { placeHolder: "Which log?" });
  if (chosen === ours) parts.log.show();
  if (chosen === theirs) await vscode.window.showTextDocument(vscode.Uri.file(file), { preview: false });
}
