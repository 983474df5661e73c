import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { PalaceError } from "../../src/core/errors";
import { launch, launchError } from "../../src/core/launch";
import { run } from "../../src/core/processes";

const HERE = { cwd: "/" };

function node(script: string): readonly string[] {
  return [process.execPath, "-e", script];
}

describe("starting the daemon", () => {
  test("its command joins or starts it, outside of every workspace", async () => {
    const ran: unknown[] = [];
    await launch({
      commandLine: ["/venv/bin/python", "-m", "palace_daemon", "--data-dir", "/data"],
      run: (command, { cwd }) => {
        ran.push(command, cwd);
        return Promise.resolve({ code: 0, stdout: "", stderr: "" });
      },
    });
    assert.deepEqual(ran, [["/venv/bin/python", "-m", "palace_daemon", "--data-dir", "/data", "--stdio"], "/"]);
  });

  const WORDS: [string, string, string, string][] = [
    ["with the daemon's words", "palace-daemon: the daemon did not start: cannot use /x: File exists\n", "the daemon did not start: cannot use /x: File exists", ""],
    ["with its hint", "palace-daemon: the daemon does not answer on its socket (its log is /a/b.log)", "the daemon did not start: the daemon does not answer on its socket", "its log is /a/b.log"],
    ["with a hint that has parentheses itself", "palace-daemon: no room (remove some (or all))", "the daemon did not start: no room", "remove some (or all)"],
    ["with the last of several", "palace-daemon: one\npalace-daemon: two", "the daemon did not start: two", ""],
    ["with Python's last line", "Traceback\n  File x\nModuleNotFoundError: No module named 'numpy'\n", "the daemon did not start: ModuleNotFoundError: No module named 'numpy'", "the logs may say more"],
    ["with its exit code where it said nothing", "", "the daemon did not start: exit code 3", "the logs may say more"],
  ];
  for (const [how, stderr, message, hint] of WORDS) {
    test(`a failure is told ${how}`, () => {
      const error = launchError(stderr, 3);
      assert.deepEqual([error.message, error.hint, error.kind], [message, hint, "notStarted"]);
    });
  }
});

describe("running a program", () => {
  test("gives its code and its words, and lines as they come", async () => {
    const lines: string[] = [];
    const ran = await run(node("console.log('one\\ntwo'); console.error('three'); process.exit(7)"), { ...HERE, onLine: (line) => lines.push(line) });
    assert.deepEqual([ran, lines], [{ code: 7, stdout: "one\ntwo\n", stderr: "three\n" }, ["one", "two"]]);
  });

  test("one that is not there is told by its name", async () => {
    await assert.rejects(run(["/no/such/program"], HERE), (error) => error instanceof PalaceError && error.kind === "notFound" && error.message.includes("/no/such/program"));
  });

  test("one that takes too long is ended", async () => {
    await assert.rejects(run(node("setInterval(() => {}, 1000)"), { ...HERE, limitMs: 200 }), (error) => error instanceof PalaceError && error.kind === "deadline");
  });

  test("one that is given up is ended with all that it started", async () => {
    const giveUp = new AbortController();
    // The grandchild keeps standard output open: the promise settles only when it is gone, too.
    const script = `require("child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "inherit" }).once("spawn", () => console.log("up")); setInterval(() => {}, 1000)`;
    const running = run(node(script), { ...HERE, signal: giveUp.signal, onLine: () => { giveUp.abort(); } });
    await assert.rejects(running, (error) => error instanceof PalaceError && error.kind === "cancelled");
  });

  test("one that leaves another behind, which holds its output, ends with itself", async () => {
    const left = `require("child_process").spawn(process.execPath, ["-e", "setTimeout(() => {}, 20000)"], { stdio: ["ignore", "inherit", "inherit"], detached: true }).unref()`;
    const ran = await run(node(`${left}; process.stdout.write("done", () => process.exit(0))`), { ...HERE, limitMs: 10_000 });
    assert.deepEqual([ran.code, ran.stdout], [0, "done"]);
  });

  test("one that the system refuses at once is told in words", async () => {
    await assert.rejects(run(["/bin/sh\0"], HERE), (error) => error instanceof PalaceError && error.kind === "internal" && error.message.startsWith("cannot run"));
  });

  test("one that was given up before is not started", async () => {
    await assert.rejects(run(["/no/such/program"], { ...HERE, signal: AbortSignal.abort() }), (error) => error instanceof PalaceError && error.kind === "cancelled");
  });
});
