/** One connection over a real socket, to daemons that behave as a healthy one never does. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as net from "node:net";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, describe, test } from "node:test";

import { createMessageConnection, type MessageConnection, ResponseError, StreamMessageReader, StreamMessageWriter } from "vscode-jsonrpc/node";

import { Connection } from "../../src/core/connection";
import * as endpoint from "../../src/core/endpoint";
import { PalaceError } from "../../src/core/errors";
import * as places from "../../src/core/places";
import { remainsOf } from "../../src/core/remains";
import { settled } from "./support/settled";

let directory = "";
let server: net.Server;
let peers: net.Socket[] = [];
/** What the daemon does with one that connects. */
let behaves: (wire: MessageConnection) => void = () => undefined;
const former = process.env.XDG_RUNTIME_DIR;

beforeEach(async () => {
  directory = mkdtempSync(path.join(tmpdir(), "pal-wire-"));
  process.env.XDG_RUNTIME_DIR = directory;
  mkdirSync(path.join(directory, "palace"), { mode: 0o700 });
  server = net.createServer({ allowHalfOpen: true }, (socket) => {
    peers.push(socket);
    socket.on("error", () => undefined);
    const wire = createMessageConnection(new StreamMessageReader(socket), new StreamMessageWriter(socket));
    behaves(wire);
    wire.listen();
  });
  server.listen(places.socketPath(directory));
  await once(server, "listening");
});

afterEach(() => {
  for (const peer of peers) peer.destroy();
  peers = [];
  server.close();
  process.env.XDG_RUNTIME_DIR = former;
  rmSync(directory, { recursive: true, force: true });
});

function greets(wire: MessageConnection): void {
  wire.onRequest("palace/hello", () => ({ protocolVersion: 1, version: "0.1.0", methods: [], events: [] }));
}

function kindIs(kind: string): (error: unknown) => boolean {
  return (error) => error instanceof PalaceError && error.kind === kind;
}

describe("a daemon that", () => {
  test("was started with another runtime directory is found where its lock says", async () => {
    behaves = greets;
    const socket = places.socketPath(directory);
    process.env.XDG_RUNTIME_DIR = path.join(directory, "other");
    mkdirSync(path.join(directory, "other", "palace"), { mode: 0o700, recursive: true });
    await assert.rejects(endpoint.connect(directory), kindIs("notRunning"));
    assert.equal(remainsOf(directory, 0), "nothing");
    writeFileSync(path.join(directory, "daemon.lock"), JSON.stringify({ pid: 1, version: "0.1.0", socket }));
    (await Connection.greet(await endpoint.connect(directory))).close();
    assert.equal(remainsOf(directory, 0), "socket");
    chmodSync(path.dirname(socket), 0o777);
    await assert.rejects(endpoint.connect(directory), kindIs("notRunning"));
    writeFileSync(path.join(directory, "daemon.lock"), JSON.stringify({ pid: 1, version: "0.1.0", socket: "there" }));
    await assert.rejects(endpoint.connect(directory), kindIs("notRunning"));
  });

  test("takes connections and says nothing is one that does not answer, not one that ended", async () => {
    behaves = (wire) => wire.onRequest("palace/hello", () => new Promise(() => undefined));
    await assert.rejects(Connection.greet(await endpoint.connect(directory), 20), kindIs("deadline"));
  });

  test("hangs up while it greets is one that went away", async () => {
    behaves = (wire) => wire.onRequest("palace/hello", () => {
      for (const peer of peers) peer.destroy();
    });
    await assert.rejects(Connection.greet(await endpoint.connect(directory)), kindIs("disconnected"));
  });

  test("hangs holds no socket of a connection that is closed", async () => {
    behaves = greets;
    const found = await endpoint.connect(directory);
    const connection = await Connection.greet(found);
    for (const peer of peers) peer.pause(); // it reads nothing more, and never hangs up
    connection.close(20);
    await connection.ended;
    assert.ok(found.socket.destroyed);
  });

  test("refuses without saying of which kind is still there", async () => {
    behaves = (wire) => {
      greets(wire);
      wire.onRequest("palace/status", () => new ResponseError(-32603, "no such thing"));
    };
    const connection = await Connection.greet(await endpoint.connect(directory));
    await assert.rejects(connection.request("palace/status", {}), (error) => error instanceof PalaceError && error.kind === "internal" && error.message === "no such thing");
    connection.close();
  });
});

test("two long requests at a time each hear of their own progress, to their end", async () => {
  const asked: { token: string; answer: (result: unknown) => void }[] = [];
  let told: MessageConnection | undefined;
  behaves = (wire) => {
    told = wire;
    greets(wire);
    wire.onRequest("palace/mine", ({ workDoneToken }: { workDoneToken: string }) => new Promise((answer) => asked.push({ token: workDoneToken, answer })));
  };
  const connection = await Connection.greet(await endpoint.connect(directory));
  const heard: string[] = [];
  const requests = ["one", "other"].map((name) =>
    connection.request("palace/mine", { wait: true }, { onProgress: (value) => heard.push(`${name}: ${"message" in value ? value.message : ""}`) }),
  );
  while (asked.length < 2) await settled();
  const tell = async (at: number, message: string): Promise<void> => {
    await told?.sendNotification("$/progress", { token: asked[at]?.token, value: { kind: "report", message } });
  };
  await tell(0, "first");
  await tell(1, "second");
  asked[1]?.answer({});
  await requests[1];
  await tell(0, "third");
  asked[0]?.answer({});
  await requests[0];
  assert.deepEqual(heard, ["one: first", "other: second", "one: third"]);
  connection.close();
});

test("a file that tells of the port and makes no sense, as while it is being written, is told in words", async () => {
  const file = places.tcpFile(directory);
  await assert.rejects(endpoint.connectTcp(directory), kindIs("notRunning"));
  for (const content of ["", '{"port": 12', "[]", "null"]) {
    writeFileSync(file, content, { mode: 0o600 });
    await assert.rejects(endpoint.connectTcp(directory), kindIs("foreign"));
  }
});

test("a directory that others may write to is told with what to do", async () => {
  chmodSync(path.join(directory, "palace"), 0o777);
  await assert.rejects(endpoint.connect(directory), (error) => error instanceof PalaceError && error.kind === "foreign" && error.hint.includes(`chmod 700 ${path.join(directory, "palace")}`));
});
