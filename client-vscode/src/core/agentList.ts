/** Connecting agents to Palace: what `palace-daemon connect` says and does, and what a person is told of it. */

import { execFile } from "node:child_process";
import { homedir } from "node:os";
import * as path from "node:path";

import { PalaceError } from "./errors";
import { rootOf } from "./processes";

/** `differs`: by another installation, or in part; `unclear`: its settings cannot be read, `reason` says why. */
export type AgentState = "absent" | "connected" | "differs" | "unclear";

export interface Agent {
  /** As `palace-daemon connect` calls it. */
  readonly agent: string;
  readonly isFound: boolean;
  readonly state: AgentState;
  readonly reason: string;
}

/** What becomes, or became, of one settings file. */
export interface FileChange {
  readonly path: string;
  readonly change: "changed" | "removed" | "unchanged" | "wrote";
  /** Unified; empty where nothing changes. */
  readonly diff: string;
}

export interface Changes {
  readonly files: readonly FileChange[];
  /** What to do next, in sentences without their full stop. */
  readonly advice: readonly string[];
}

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command to its end; rejects where it cannot be run at all. */
export type RunWhole = (command: readonly string[]) => Promise<Ended>;

const LIMIT_MS = 30_000;
/** Twice the settings of an agent that keeps its whole history in them, as a difference of one long line. */
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;
const STATES: readonly string[] = ["absent", "connected", "differs", "unclear"] satisfies AgentState[];
const CHANGES: readonly string[] = ["changed", "removed", "unchanged", "wrote"] satisfies FileChange["change"][];
const NAMES: Readonly<Record<string, string>> = {
  claude: "Claude Code",
  codex: "Codex",
  cursor: "Cursor",
  vscode: "VS Code",
  gemini: "Gemini CLI",
  opencode: "opencode",
};

/** The command `palace-daemon connect`, of the installation that runs the daemon. */
export class ConnectCommand {
  /**
   * @param commandLine The daemon's, up to its subcommand.
   * @param hasOwnDirectory Whether a data directory was chosen. Where none was, agents are told of none, as when a
   *   person connects them on the command line.
   */
  constructor(
    commandLine: readonly string[],
    hasOwnDirectory: boolean,
    private readonly run: RunWhole = runWhole,
  ) {
    const at = commandLine.indexOf("--data-dir");
    this.commandLine = at < 0 || hasOwnDirectory ? commandLine : commandLine.toSpliced(at, 2);
  }

  readonly commandLine: readonly string[];

  /** @throws PalaceError as the command says. */
  async agents(): Promise<readonly Agent[]> {
    return parsedAgents(await this.#output("--list"));
  }

  /**
   * Connects an agent, or disconnects it; with `isDryRun` says what that would change, and changes nothing.
   *
   * @throws PalaceError as the command says, for instance where a settings file cannot be understood.
   */
  async change(agent: string, how: { readonly isRemoval: boolean; readonly isDryRun: boolean }): Promise<Changes> {
    const flags = [...(how.isRemoval ? ["--remove"] : []), ...(how.isDryRun ? ["--dry-run"] : [])];
    return parsedChanges(await this.#output(agent, ...flags));
  }

  async #output(...words: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run([...this.commandLine, "connect", ...words, "--json"]);
    if (code === 0) return stdout;
    const last = stderr.trim().split("\n").at(-1) ?? "";
    if (last.includes("unrecognized arguments")) {
      throw new PalaceError("the installed palace-daemon is too old for this", "version", "bring extension and palace-daemon to one version");
    }
    throw new PalaceError(last.replace(/^palace-daemon(?: connect)?: (?:error: )?/, "") || "palace-daemon connect failed", "config");
  }
}

/** @throws PalaceError `version` where it is not what this extension knows. */
export function parsedAgents(output: string): readonly Agent[] {
  return list(parsed(output), "agents").map((one) => {
    const { agent, isFound, state, reason } = one;
    if (typeof agent !== "string" || typeof isFound !== "boolean" || !isState(state)) throw unknownAnswer();
    return { agent, isFound, state, reason: typeof reason === "string" ? reason : "" };
  });
}

/** @throws PalaceError `version` where it is not what this extension knows. */
export function parsedChanges(output: string): Changes {
  const whole = parsed(output);
  const files = list(whole, "files").map((one) => {
    const { path: name, change, diff } = one;
    if (typeof name !== "string" || typeof diff !== "string" || !isChange(change)) throw unknownAnswer();
    return { path: name, change, diff };
  });
  const { advice } = whole;
  return { files, advice: Array.isArray(advice) ? advice.filter((one) => typeof one === "string") : [] };
}

/** What people call it. */
export function nameOf(agent: string): string {
  return NAMES[agent] ?? agent;
}

/** How far it is connected, in a few words. */
export function stateInWords({ state, reason }: Agent): string {
  switch (state) {
    case "connected":
      return "connected";
    case "absent":
      return "not connected";
    case "differs":
      return "connected in part, or by another installation";
    case "unclear":
      return reason || "its settings cannot be read";
  }
}

/** A line for each file: what becomes of it. */
export function filesInWords({ files }: Changes, home = homedir()): string {
  const words = { wrote: "New", changed: "Changed", removed: "Removed", unchanged: "As it is" };
  return files.map((file) => `${words[file.change]}: ${tilde(file.path, home)}`).join("\n");
}

/** Whether there is nothing to do. */
export function isNothing({ files }: Changes): boolean {
  return files.every((file) => file.change === "unchanged");
}

/** All differences, for a document that only shows them. */
export function differences({ files }: Changes): string {
  return files.map((file) => file.diff).filter((diff) => diff).join("\n");
}

function tilde(given: string, home: string): string {
  return given.startsWith(home + path.sep) ? `~${given.slice(home.length)}` : given;
}

function parsed(output: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(output);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // told below
  }
  throw unknownAnswer();
}

function list(whole: Readonly<Record<string, unknown>>, name: string): readonly Readonly<Record<string, unknown>>[] {
  const given = whole[name];
  if (!Array.isArray(given) || !given.every((one) => typeof one === "object" && one !== null)) throw unknownAnswer();
  return given as Record<string, unknown>[];
}

function isState(given: unknown): given is AgentState {
  return typeof given === "string" && STATES.includes(given);
}

function isChange(given: unknown): given is FileChange["change"] {
  return typeof given === "string" && CHANGES.includes(given);
}

function unknownAnswer(): PalaceError {
  return new PalaceError("palace-daemon connect answered in a form that this extension does not know", "version", "bring extension and palace-daemon to one version");
}

/** Never in a workspace: Python looks for modules where it runs. */
const runWhole: RunWhole = (command) =>
  new Promise((resolve, reject) => {
    const [program = "", ...rest] = command;
    const options = {
      cwd: rootOf(command),
      timeout: LIMIT_MS,
      maxBuffer: OUTPUT_BYTES_MAX,
      windowsHide: true,
      env: { ...process.env, PYTHONIOENCODING: "utf-8" },
    };
    execFile(program, rest, options, (error, stdout, stderr) => {
      if (!error) resolve({ code: 0, stdout, stderr });
      else if (error.killed) reject(new PalaceError(`palace-daemon connect did not end in ${LIMIT_MS / 1000} s`, "deadline", "look at the settings of the agent before you try again"));
      else if (typeof error.code === "number") resolve({ code: error.code, stdout, stderr });
      else reject(new PalaceError(`cannot run ${program}: ${error.message}`, "notFound", "choose another Python with the setting palace.python"));
    });
  });
