/**
 * Where the daemon keeps its files: the same answers as server/palace_daemon/places.py, which test/rpc compares.
 *
 * Functions read the environment that they are given and create nothing.
 */

import { createHash } from "node:crypto";
import { accessSync, constants, readFileSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import * as path from "node:path";

export type Environment = Readonly<Record<string, string | undefined>>;

const APP = "palace";
const LOCK_NAME = "daemon.lock";
/** Longest socket path that every Unix takes: `sun_path` holds 104 bytes on macOS, with the NUL. */
const SOCKET_PATH_BYTES_MAX = 103;

function home(env: Environment): string {
  return env.HOME ?? homedir();
}

function xdg(env: Environment, variable: string, ...fallback: string[]): string {
  const value = env[variable] ?? "";
  return value.startsWith("/") ? value : path.join(home(env), ...fallback);
}

function windows(env: Environment, variable: string, ...fallback: string[]): string {
  return env[variable] ?? path.join(homedir(), ...fallback);
}

function expanded(given: string, env: Environment): string {
  const whole = given === "~" || given.startsWith("~/") ? path.join(home(env), given.slice(1)) : given;
  return path.resolve(whole);
}

/** The data directory: `chosen` (the setting), else PALACE_HOME, else the platform's. */
export function dataDirectory(chosen: string, env: Environment = process.env): string {
  const given = chosen || (env.PALACE_HOME ?? "");
  if (given) return expanded(given, env);
  if (process.platform === "darwin") return path.join(home(env), "Library", "Application Support", APP);
  if (process.platform === "win32") return path.join(windows(env, "LOCALAPPDATA", "AppData", "Local"), APP, "data");
  return path.join(xdg(env, "XDG_DATA_HOME", ".local", "share"), APP);
}

/** The directory of sockets, private to this user. */
function runtimeDirectory(env: Environment): string {
  if (process.platform === "win32") return path.join(windows(env, "LOCALAPPDATA", "AppData", "Local"), APP, "run");
  const base = env.XDG_RUNTIME_DIR ?? "";
  if (base.startsWith("/") && isDirectory(base)) return path.join(base, APP);
  return path.join(temporaryDirectory(env), `${APP}-${userNumber()}`);
}

/** Not `os.userInfo`: in a container the user may have a number and no name, which that refuses. */
function userNumber(): string {
  return String(process.getuid?.() ?? "");
}

/** As Python's `tempfile.gettempdir`: the first that can be written to. */
function temporaryDirectory(env: Environment): string {
  const named = [env.TMPDIR, env.TEMP, env.TMP].filter((one) => one !== undefined && one !== "") as string[];
  return [...named.map((one) => path.resolve(one)), "/tmp", "/var/tmp", "/usr/tmp"].find(isWritable) ?? "/tmp";
}

function isWritable(given: string): boolean {
  try {
    accessSync(given, constants.W_OK | constants.X_OK);
    return isDirectory(given);
  } catch {
    return false;
  }
}

/** The socket of the daemon that serves `data`; its name is a hash of the resolved directory. */
export function socketPath(data: string, env: Environment = process.env): string {
  const digest = createHash("sha256").update(resolved(data)).digest("hex").slice(0, 16);
  const found = path.join(runtimeDirectory(env), `${digest}.sock`);
  if (process.platform !== "win32" && Buffer.byteLength(found) > SOCKET_PATH_BYTES_MAX) {
    return path.join("/tmp", `${APP}-${userNumber()}`, `${digest}.sock`);
  }
  return found;
}

/**
 * The socket that the daemon which took the lock of `data` last wrote down, if it did. It is elsewhere than
 * {@link socketPath} says where that was started with another runtime or temporary directory, as by ssh or cron.
 */
export function toldSocketPath(data: string): string | undefined {
  try {
    const told = (JSON.parse(readFileSync(path.join(data, LOCK_NAME), "utf8")) as { socket?: unknown } | null)?.socket;
    return typeof told === "string" && path.isAbsolute(told) && !told.includes("\0") ? told : undefined;
  } catch {
    return undefined; // there is no lock, or nothing in it that can be read
  }
}

/** The private file that says at which port the daemon listens, and with which token. */
export function tcpFile(data: string, env: Environment = process.env): string {
  return socketPath(data, env).replace(/\.sock$/, ".tcp.json");
}

/** The daemon's log. */
export function logFile(data: string, env: Environment = process.env): string {
  const name = `daemon-${path.basename(socketPath(data, env), ".sock")}.log`;
  if (process.platform === "darwin") return path.join(home(env), "Library", "Logs", APP, name);
  if (process.platform === "win32") return path.join(windows(env, "LOCALAPPDATA", "AppData", "Local"), APP, "logs", name);
  return path.join(xdg(env, "XDG_STATE_HOME", ".local", "state"), APP, name);
}

function isDirectory(given: string): boolean {
  return statSync(given, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** More links than this lead in a circle. */
const LINKS_MAX = 40;

/** As Python's `os.path.realpath`: what does not exist yet keeps its name, also behind a link that leads nowhere. */
function resolved(given: string): string {
  const whole = path.resolve(given);
  try {
    return realpathSync(whole);
  } catch {
    return walked(whole);
  }
}

function walked(whole: string): string {
  const { root } = path.parse(whole);
  let current = root;
  const left = whole.slice(root.length).split(path.sep).filter(Boolean);
  for (let links = 0; left.length > 0; ) {
    const name = left.shift() ?? "";
    const next = name === ".." ? path.dirname(current) : path.join(current, name);
    const target = name === "." || name === ".." ? "" : linkTarget(next);
    if (!target || (links += 1) > LINKS_MAX) {
      current = next;
      continue;
    }
    if (path.isAbsolute(target)) current = path.parse(target).root;
    left.unshift(...target.split(path.sep).filter((part) => part !== "" && part !== "."));
  }
  return current;
}

function linkTarget(given: string): string {
  try {
    return readlinkSync(given);
  } catch {
    return ""; // no link, or nothing at all
  }
}
