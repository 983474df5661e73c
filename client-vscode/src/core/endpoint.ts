/** Finding the socket of a running daemon, and making sure that it is this user's before anything is said. */

import { timingSafeEqual } from "node:crypto";
import { lstatSync, readFileSync, type Stats } from "node:fs";
import * as net from "node:net";
import * as path from "node:path";

import { PalaceError } from "./errors";
import * as places from "./places";

/** A connected socket; over TCP with what is still to be exchanged before the first question. */
export interface Endpoint {
  readonly socket: net.Socket;
  readonly secret?: { readonly token: string; readonly proof: string };
}

/** How long the daemon's queue of connections may be full. */
const CONNECT_MS = 5_000;

/**
 * Connects to the daemon that serves `data`.
 *
 * @throws PalaceError `notRunning` where none listens, `foreign` where what is there may be somebody else's, `deadline`
 *   where it takes no connections now.
 */
export async function connect(data: string): Promise<Endpoint> {
  if (process.platform === "win32") return await connectTcp(data);
  const usual = places.socketPath(data);
  try {
    return await connectAt(usual);
  } catch (error) {
    const told = places.toldSocketPath(data);
    if (told === undefined || told === usual || !(error instanceof PalaceError) || error.kind !== "notRunning") throw error;
    // What is wrong there is of no matter: it may have been written down on another machine, or long ago.
    return await connectAt(told).catch(() => Promise.reject(error));
  }
}

async function connectAt(socket: string): Promise<Endpoint> {
  checkOwner(socket, "socket");
  return { socket: await opened({ path: socket }) };
}

/** Over TCP, as on Windows: the daemon's private file gives the port and the secret. */
export async function connectTcp(data: string): Promise<Endpoint> {
  const file = places.tcpFile(data);
  checkOwner(file, "file");
  const told = read(file);
  if (!isTold(told)) throw new PalaceError(`${file} does not say how to reach the daemon`, "foreign", "restart the daemon");
  return { socket: await opened({ host: "127.0.0.1", port: told.port }), secret: { token: told.token, proof: told.proof } };
}

/** Whether `given` is the other half of the secret; takes as long for a near miss as for a far one. */
export function isProof(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}

function read(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, "ascii"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") throw new PalaceError("no daemon is running", "notRunning");
    return undefined; // half written, or none of ours
  }
}

function isTold(told: unknown): told is { port: number; token: string; proof: string } {
  const one = told as Record<string, unknown> | null;
  return typeof one?.port === "number" && typeof one.token === "string" && typeof one.proof === "string";
}

function opened(where: net.NetConnectOpts): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect(where);
    const timer = setTimeout(() => {
      socket.destroy(Object.assign(new Error("it takes no connection"), { code: "ETIMEDOUT" }));
    }, CONNECT_MS);
    socket.once("connect", () => {
      clearTimeout(timer);
      socket.removeAllListeners("error");
      resolve(socket);
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      reject(refusal(error));
    });
  });
}

function refusal(error: NodeJS.ErrnoException): PalaceError {
  if (error.code === "ECONNREFUSED" || error.code === "ENOENT") return new PalaceError("no daemon is running", "notRunning");
  // Its queue is full: it hangs, or has too much to do.
  if (error.code === "EAGAIN" || error.code === "ETIMEDOUT") return new PalaceError("the daemon does not answer", "deadline");
  return new PalaceError(`the daemon cannot be reached: ${error.message}`, "disconnected");
}

/** Checks that nobody else can have put it there: a question is told to whoever listens. */
function checkOwner(found: string, kind: "socket" | "file"): void {
  if (process.platform === "win32") return; // what lies in a person's profile there is that person's
  const [directory, entry] = [look(path.dirname(found)), look(found)];
  const uid = process.getuid?.();
  if (directory.uid !== uid || entry.uid !== uid) {
    throw new PalaceError(`${found} belongs to another user`, "foreign", "remove it, then restart the daemon");
  }
  if (!directory.isDirectory()) throw foreign(`${path.dirname(found)} is no directory of its own`);
  if ((directory.mode & 0o022) !== 0) {
    throw new PalaceError(`other users may write to ${path.dirname(found)}, so what lies there is not trusted`, "foreign", `run: chmod 700 ${path.dirname(found)}`);
  }
  if (kind === "socket" ? !entry.isSocket() : !entry.isFile()) throw foreign(`${found} is no ${kind}`);
  if (kind === "file" && (entry.mode & 0o077) !== 0) throw new PalaceError(`others may read ${found}`, "foreign", "restart the daemon");
}

function foreign(message: string): PalaceError {
  return new PalaceError(message, "foreign", "remove it, then restart the daemon");
}

function look(given: string): Stats {
  const found = lstatSync(given, { throwIfNoEntry: false });
  if (!found) throw new PalaceError("no daemon is running", "notRunning");
  return found;
}
