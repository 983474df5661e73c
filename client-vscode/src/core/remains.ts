/**
 * What a daemon left behind when it went away, which tells how it ended.
 *
 * A daemon that is asked to stop (`palace-daemon stop`, SIGTERM, an upgrade, its data directory removed) first hangs
 * up, closes its database, then removes its socket, and the process ends last, within two seconds. One that is killed
 * or crashes removes nothing: its socket stays, and nobody listens there. So the socket's file decides, and while it is
 * there, whether the process still runs. (One that hangs while it stops ends itself by force and leaves its socket, too:
 * it is taken for a crash.) `daemon.lock` tells nothing: it always stays, and Node cannot see who holds it.
 */

import { existsSync, readFileSync } from "node:fs";

import * as places from "./places";
import { isRunning } from "./processes";

/** `nothing`: it ended in order. `process`: it still runs. `socket`: it was killed, or crashed. */
export type Remains = "nothing" | "process" | "socket";

/** What is left of the daemon of `data` that was process `pid`; 0 where that is not known. */
export function remainsOf(data: string, pid: number): Remains {
  const traces = process.platform === "win32" ? [places.tcpFile(data)] : [places.socketPath(data), places.toldSocketPath(data)];
  if (!traces.some((trace) => trace !== undefined && existsSync(trace))) return "nothing";
  return isAlive(pid) ? "process" : "socket";
}

function isAlive(pid: number): boolean {
  return pid > 0 && isRunning(pid) && !isZombie(pid);
}

/** Whether it ended and only waits for its parent to notice: in a container nobody may ever do that. */
function isZombie(pid: number): boolean {
  if (process.platform !== "linux") return false;
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1");
    return fields.slice(fields.lastIndexOf(")") + 2, fields.lastIndexOf(")") + 3) === "Z";
  } catch {
    return true; // it went meanwhile
  }
}
