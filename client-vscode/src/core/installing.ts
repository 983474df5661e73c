/**
 * Installing the daemon into an environment of the extension's own.
 *
 * It is built in a new directory and renamed into its place when it is whole, so that an installation that fails or is
 * given up changes nothing. The place stays the same over upgrades: agents that were connected name its Python.
 */

import { existsSync } from "node:fs";
import { lstat, mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import * as path from "node:path";

import type { Package } from "./broughtPackage";
import { PalaceError } from "./errors";
import type { Environment } from "./places";
import { isRunning, run as runProgram, type Ran, type Run } from "./processes";
import { ENVIRONMENT_NAME, probe, pythonOf, type Probe } from "./python";

export type Step = "venv" | "libraries" | "model";

export interface InstallOptions {
  /** Makes the environment. */
  readonly python: string;
  /** The extension's own directory. */
  readonly storage: string;
  readonly what: Package;
  readonly env?: Environment;
  readonly signal?: AbortSignal | undefined;
  /** Hears what is begun, and lines of the step's own output that say how far it is. */
  readonly onStep: (step: Step, detail: string) => void;
  /** Hears all that a program said which failed. */
  readonly log: (words: string) => void;
  readonly run?: Run;
}

export interface Installed {
  readonly python: Probe;
  /** Why the model is not there yet; empty where it is. Recall by words works without, and the daemon tries again. */
  readonly modelProblem: string;
}

/**
 * Installs, taking the place of an environment that is there. The daemon that runs goes on until it is restarted.
 *
 * @throws PalaceError `install` with the step, the reason and what to do; `cancelled`. Nothing is changed then.
 */
export async function install(options: InstallOptions): Promise<Installed> {
  const place = path.join(options.storage, ENVIRONMENT_NAME);
  const building = `${place}.new-${process.pid}-${Date.now().toString(36)}`;
  await mkdir(options.storage, { recursive: true });
  await removeLeftovers(options.storage);
  try {
    options.onStep("venv", "");
    await step(options, [options.python, "-m", "venv", "--prompt", "palace", building], venvError);
    options.onStep("libraries", "");
    const pip = [pythonOf(building), "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"];
    await step(options, [...pip, `${options.what.path}[mcp]`], pipError, (line) => {
      const words = progressOf(line.trim());
      if (words) options.onStep("libraries", words);
    });
    const python = await working(building, options);
    await put(building, place);
    options.onStep("model", "");
    const executable = pythonOf(place);
    return { python: { ...python, executable }, modelProblem: await installModel(options, executable) };
  } catch (error) {
    await rm(building, { recursive: true, force: true });
    throw error;
  }
}

/** What a line of pip says to a person; most say nothing. */
function progressOf(line: string): string {
  if (line.startsWith("Installing collected packages")) return "unpacking";
  return /^Collecting ([\w.-]+)/.exec(line)?.[1] ?? "";
}

async function working(building: string, options: InstallOptions): Promise<Probe> {
  const told = await probe([pythonOf(building)], { env: quiet(options.env ?? process.env), signal: options.signal, run: options.run });
  if (told.daemonVersion === null) throw new PalaceError("the new environment does not have palace-daemon", "install", "try again with another Python");
  return told;
}

/** Its failure is none of the installation: the daemon fetches the model by itself as soon as it can. */
async function installModel(options: InstallOptions, python: string): Promise<string> {
  try {
    await step(options, [python, "-m", "palace_daemon", "model", "install"], (ran) => new PalaceError(lastWords(ran), "install"));
    return "";
  } catch (error) {
    if (error instanceof PalaceError && error.kind === "cancelled") return "it was left out";
    return error instanceof Error ? error.message : String(error);
  }
}

async function step(
  options: InstallOptions,
  command: readonly string[],
  failed: (ran: Ran) => PalaceError,
  onLine?: (line: string) => void,
): Promise<void> {
  const run = options.run ?? runProgram;
  const ran = await run(command, { cwd: options.storage, env: quiet(options.env ?? process.env), signal: options.signal, onLine });
  if (ran.code === 0) return;
  options.log(`${ran.stdout}\n${ran.stderr}`.trim());
  throw failed(ran);
}

/** Without what would lead pip or Python out of the new environment. */
function quiet(env: Environment): Environment {
  return { ...env, PYTHONHOME: undefined, PYTHONPATH: undefined, PIP_TARGET: undefined, PIP_PREFIX: undefined, PIP_USER: "0", PYTHONUTF8: "1" };
}

function venvError(ran: Ran): PalaceError {
  const words = `${ran.stdout}\n${ran.stderr}`;
  if (/ensurepip is not|No module named '?venv|No module named '?ensurepip|python3[\d.]*-venv/.test(words)) {
    const debian = /python3[\d.]*-venv/.exec(words)?.[0] ?? "python3-venv";
    return new PalaceError("this Python cannot make an environment, because its module venv is not installed", "install", `on Debian and Ubuntu, run: sudo apt install ${debian}`);
  }
  if (words.includes('No space left')) return noSpace();
  return new PalaceError(`the environment could not be made: ${lastWords(ran)}`, "install", "choose another Python");
}

function pipError(ran: Ran): PalaceError {
  const words = `${ran.stdout}\n${ran.stderr}`;
  if (words.includes('No space left')) return noSpace();
  if (/requires a different Python|Requires-Python/.test(words) && words.includes('not in \'>=')) {
    return new PalaceError("this Python is too old for the daemon", "install", "choose Python 3.11 or later");
  }
  if (/NewConnectionError|ConnectTimeout|ConnectionError|ReadTimeout|Name or service not known|name resolution|getaddrinfo|Network is unreachable|ProxyError/i.test(words)) {
    return new PalaceError("the libraries could not be fetched, because there is no network or the package index does not answer", "install", "look at the connection and the proxy, and try again");
  }
  return new PalaceError(`the libraries could not be installed: ${lastWords(ran)}`, "install", "the logs have all of pip's words");
}

function noSpace(): PalaceError {
  return new PalaceError("there is no space left for the installation", "install", "it needs about 600 MB");
}

const WORDS_CHARS_MAX = 500;

function lastWords(ran: Ran): string {
  const lines = `${ran.stdout}\n${ran.stderr}`.split("\n").map((line) => line.trim());
  const said = lines.filter((line) => /^(?:ERROR|Error|palace-daemon|.*Error):/.test(line)).pop() ?? lines.filter(Boolean).pop();
  const whole = said?.replace(/^(?:ERROR|Error|palace-daemon): /, "") ?? `exit code ${String(ran.code)}`;
  return whole.slice(0, WORDS_CHARS_MAX);
}

/** @throws PalaceError `install` where the file system refuses. */
async function put(building: string, place: string): Promise<void> {
  try {
    await pointTo(building, place);
    await swap(building, place);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOSPC") throw noSpace();
    // On Windows a directory whose programs run cannot be renamed; and two windows may install at a time.
    const hint = "stop the daemon with palace-daemon stop, close other windows and agents that use it, and try again";
    throw new PalaceError(`the environment could not be put in its place: ${message}`, "install", hint);
  }
}

/** Scripts of an environment name its Python by its whole path: lets them name the one to come. */
async function pointTo(building: string, place: string): Promise<void> {
  if (process.platform === "win32") return; // its launchers are programs; the extension calls Python itself
  const bin = path.join(building, "bin");
  for (const name of await readdir(bin)) {
    const script = path.join(bin, name);
    const found = await lstat(script);
    if (!found.isFile()) continue;
    const bytes = await readFile(script);
    if (bytes.includes(0) || !bytes.includes(building)) continue; // a program, or nothing to change
    await writeFile(script, bytes.toString("utf8").replaceAll(building, place), { mode: found.mode });
  }
}

/** Puts `building` in the place; what was there comes back if that fails. */
async function swap(building: string, place: string): Promise<void> {
  const former = building.replace(".new-", ".old-");
  const isThere = existsSync(place);
  if (isThere) await rename(place, former);
  try {
    await rename(building, place);
  } catch (error) {
    if (isThere) await rename(former, place);
    throw error;
  }
  await rm(former, { recursive: true, force: true }).catch(() => undefined); // in use on Windows: the next one removes it
}

const LEFTOVER = new RegExp(`^${ENVIRONMENT_NAME}\\.(?:new|old)-(\\d+)-`);

/** Removes what an installation left that was ended with its editor; one of another window that goes on stays. */
async function removeLeftovers(storage: string): Promise<void> {
  for (const name of await readdir(storage)) {
    const pid = Number(LEFTOVER.exec(name)?.[1] ?? 0);
    if (pid && pid !== process.pid && !isRunning(pid)) await rm(path.join(storage, name), { recursive: true, force: true }).catch(() => undefined);
  }
}
