/**
 * Finding a Python that has the package `palace-daemon`.
 *
 * Candidates are asked one after the other, outside of any workspace: a folder that a person only looks at must not
 * decide which program runs. Python puts the working directory on its import path, so that is the root of the file
 * system. `-I` is not given to it: it would hide a package that `pip install --user` installed, and the daemon itself
 * is started without.
 */

import { accessSync, constants, openSync, readSync, closeSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";

import { PalaceError } from "./errors";
import type { Environment } from "./places";
import { rootOf, run as runProgram, type Run } from "./processes";
import { isNewer } from "./versions";

/** The oldest daemon that this extension understands. */
export const DAEMON_LEAST = "0.1.0";
/** The oldest Python that the daemon runs on. */
export const PYTHON_LEAST = "3.11";
const PROBE_MS = 10_000;
/** Below the extension's own directory. */
export const ENVIRONMENT_NAME = "environment";

export type Origin = "setting" | "environment" | "interpreter" | "command" | "path";

/** A program that may be a Python with the package. */
export interface Candidate {
  readonly command: readonly string[];
  readonly origin: Origin;
}

/** What a Python said of itself. */
export interface Probe {
  readonly executable: string;
  readonly pythonVersion: string;
  /** Of `palace-daemon`; null where it is not installed. */
  readonly daemonVersion: string | null;
  /** Whether it can make a virtual environment. */
  readonly hasVenv: boolean;
}

export interface FoundPython extends Probe {
  readonly daemonVersion: string;
  readonly origin: Origin;
}

/** Why a candidate will not do. */
export interface Rejected {
  readonly candidate: Candidate;
  readonly reason: string;
}

export interface Finding {
  /** The first that will do. */
  readonly found: FoundPython | undefined;
  readonly rejected: readonly Rejected[];
  /** Those, of the candidates that were asked, that could make a private environment. */
  readonly installers: readonly Probe[];
}

export interface FindOptions {
  /** The setting `palace.python`: a Python, or the program `palace-daemon` beside one. */
  readonly setting: string;
  /** The extension's own directory. */
  readonly storage: string;
  /** The interpreter that the Python extension uses; empty where there is none. */
  readonly interpreter: string;
  readonly env?: Environment;
  readonly signal?: AbortSignal | undefined;
  readonly run?: Run | undefined;
}

/**
 * Finds a Python with the package.
 *
 * @throws PalaceError `config` where the setting names one that will not do: nothing else takes its place; `cancelled`.
 */
export async function findPython(options: FindOptions): Promise<Finding> {
  const finding = await ask(options.setting ? settingCandidates(options) : candidates(options), options, true);
  if (options.setting && !finding.found) {
    const reason = finding.rejected.map((one) => one.reason).join("; ") || "there is no Python beside it";
    throw new PalaceError(
      `the setting palace.python names ${options.setting}, which cannot run the daemon: ${reason}`,
      "config",
      "choose another Python, or clear the setting",
    );
  }
  return finding;
}

/** Asks every candidate, whatever the setting says: for a person who chooses one to install with. */
export async function findInstallers(options: FindOptions): Promise<readonly Probe[]> {
  const setting = options.setting ? settingCandidates(options) : [];
  return (await ask([...setting, ...candidates(options)], options, false)).installers;
}

async function ask(given: readonly Candidate[], options: FindOptions, stopsAtFirst: boolean): Promise<Finding> {
  const rejected: Rejected[] = [];
  const installers = new Map<string, Probe>();
  let found: FoundPython | undefined;
  for (const candidate of unique(given)) {
    try {
      const told = await probe(candidate.command, options);
      if (told.hasVenv && !isNewer(PYTHON_LEAST, told.pythonVersion) && candidate.origin !== "environment") {
        const name = realName(told.executable);
        if (!installers.has(name)) installers.set(name, told);
      }
      const reason = whyNot(told);
      if (reason) rejected.push({ candidate, reason });
      else found ??= { ...told, daemonVersion: told.daemonVersion ?? "", origin: candidate.origin };
    } catch (error) {
      if (!(error instanceof PalaceError) || error.kind === "cancelled") throw error;
      rejected.push({ candidate, reason: error.message });
    }
    if (found && stopsAtFirst) break;
  }
  return { found, rejected, installers: [...installers.values()] };
}

/** One Python often has several names. */
function realName(executable: string): string {
  try {
    return realpathSync(executable);
  } catch {
    return executable;
  }
}

function whyNot(told: Probe): string {
  if (told.daemonVersion === null) return `${told.executable} (Python ${told.pythonVersion}) has no palace-daemon`;
  if (isNewer(DAEMON_LEAST, told.daemonVersion)) {
    return `${told.executable} has palace-daemon ${told.daemonVersion}, and ${DAEMON_LEAST} or later is needed`;
  }
  return "";
}

/** All places to look at in their order, apart from the setting. */
export function candidates(options: FindOptions): readonly Candidate[] {
  const env = options.env ?? process.env;
  const found: Candidate[] = [];
  const own = pythonOf(privateEnvironment(options.storage));
  if (isProgram(own)) found.push({ command: [own], origin: "environment" });
  if (path.isAbsolute(options.interpreter)) found.push({ command: [options.interpreter], origin: "interpreter" });
  const command = onPath("palace-daemon", env);
  if (command) for (const python of pythonsOf(command)) found.push({ command: [python], origin: "command" });
  for (const name of ["python3", "python"]) {
    const python = onPath(name, env);
    if (python) found.push({ command: [python], origin: "path" });
  }
  const launcher = onPath("py", env);
  if (launcher && process.platform === "win32") found.push({ command: [launcher, "-3"], origin: "path" });
  return found;
}

/** The environment that the extension installs into, below its own directory. */
export function privateEnvironment(storage: string): string {
  return path.join(storage, ENVIRONMENT_NAME);
}

/** The Python of a virtual environment. */
export function pythonOf(environment: string): string {
  return process.platform === "win32" ? path.join(environment, "Scripts", "python.exe") : path.join(environment, "bin", "python");
}

function settingCandidates(options: FindOptions): readonly Candidate[] {
  const setting = options.setting.startsWith("~/") ? path.join((options.env ?? process.env).HOME ?? homedir(), options.setting.slice(1)) : options.setting;
  if (!path.isAbsolute(setting)) {
    throw new PalaceError(`the setting palace.python is not an absolute path: ${setting}`, "config", "give the whole path");
  }
  const isCommand = path.basename(setting).startsWith("palace-daemon");
  const commands = isCommand && isProgram(setting) ? pythonsOf(setting) : [setting];
  return commands.map((command) => ({ command: [command], origin: "setting" }));
}

/**
 * The Pythons that the script `palace-daemon` may run with: what its first lines name, else those beside it. Installers
 * of tools put links to it on the PATH, so the neighbours are those of what it links to.
 */
export function pythonsOf(script: string): readonly string[] {
  const target = realpathSync(script);
  const named = shebangOf(target);
  if (named) return [named];
  const suffix = process.platform === "win32" ? ".exe" : "";
  const directories = process.platform === "win32" ? [path.dirname(target), path.dirname(path.dirname(target))] : [path.dirname(target)];
  const names = directories.flatMap((directory) => ["python", "python3"].map((name) => path.join(directory, name + suffix)));
  return names.filter(isProgram).slice(0, 1);
}

/** The Python in the first line; pip writes a long or spaced path into the second, behind a shell's `exec`. */
function shebangOf(script: string): string {
  const head = readHead(script);
  const named = /^#!\s*(\/[^\r\n]*?)\s*\r?\n(?:'''exec' "?([^"\r\n]+?)"? "\$0")?/.exec(head);
  const program = (named?.[2] ?? named?.[1] ?? "").trim();
  return /(?:^|\/)(?:python|pypy)[\d.]*$/.test(program) && isProgram(program) ? program : "";
}

const HEAD_BYTES = 2_048;

/** Empty where it may not be read. */
function readHead(script: string): string {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(script, "r");
    const block = Buffer.alloc(HEAD_BYTES);
    return block.toString("utf8", 0, readSync(descriptor, block, 0, HEAD_BYTES, 0));
  } catch {
    return "";
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

/**
 * The program that a shell would run, absolute; empty where there is none. Relative parts of PATH are left out, and so
 * is what only a shell can run (`.cmd`, `.bat`).
 */
export function onPath(name: string, env: Environment): string {
  const suffix = process.platform === "win32" ? ".exe" : "";
  for (const directory of (env.PATH ?? env.Path ?? "").split(path.delimiter)) {
    if (!path.isAbsolute(directory)) continue;
    // macOS's own Python is too old, and where the developer tools are not installed it opens a dialogue about them.
    if (process.platform === "darwin" && directory === "/usr/bin") continue;
    const program = path.join(directory, name + suffix);
    if (isProgram(program)) return program;
  }
  return "";
}

function isProgram(given: string): boolean {
  try {
    accessSync(given, constants.X_OK);
    return statSync(given).isFile();
  } catch {
    return false;
  }
}

function unique(given: readonly Candidate[]): readonly Candidate[] {
  const known = new Set<string>();
  return given.filter((one) => {
    const name = one.command.join("\n");
    const isNew = !known.has(name);
    known.add(name);
    return isNew;
  });
}

/** Runs on any Python 3, so that an old one can say that it is old. */
const PROBE = `
import json, sys
from importlib.util import find_spec
version = None
try:
    import palace_daemon
    version = str(palace_daemon.__version__)
except ImportError:
    pass
print(json.dumps({
    "executable": sys.executable,
    "pythonVersion": "%d.%d.%d" % sys.version_info[:3],
    "daemonVersion": version,
    "hasVenv": find_spec("venv") is not None and find_spec("ensurepip") is not None,
}))
`;

/**
 * Asks one Python what it is and has.
 *
 * @throws PalaceError with the reason why it is none, or `cancelled`.
 */
export async function probe(command: readonly string[], options: Pick<FindOptions, "env" | "signal" | "run">): Promise<Probe> {
  const program = command.join(" ");
  const ran = await (options.run ?? runProgram)([...command, "-c", PROBE], {
    cwd: rootOf(command),
    env: options.env,
    signal: options.signal,
    limitMs: PROBE_MS,
  });
  const told = ran.code === 0 ? parsed(ran.stdout) : undefined;
  if (!told) throw new PalaceError(`${program} is no Python 3 that runs${lastLine(ran.stderr)}`, "notFound");
  return told;
}

function parsed(text: string): Probe | undefined {
  try {
    // A start-up file of the person may print as well: ours is the last line.
    const told = JSON.parse(text.trim().split("\n").pop() ?? "") as Partial<Probe> | null;
    if (typeof told?.executable !== "string" || typeof told.pythonVersion !== "string") return undefined;
    const version = typeof told.daemonVersion === "string" ? told.daemonVersion : null;
    return { executable: told.executable, pythonVersion: told.pythonVersion, daemonVersion: version, hasVenv: told.hasVenv === true };
  } catch {
    return undefined;
  }
}

function lastLine(text: string): string {
  const line = text.trim().split("\n").pop() ?? "";
  return line ? `: ${line.slice(0, 200)}` : "";
}
