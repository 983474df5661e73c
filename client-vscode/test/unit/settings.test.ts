import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { editor } from "./support/fakeVscode";

import { readSettings } from "../../src/ui/settings";

afterEach(() => {
  editor.reset();
});

const DEFAULTS = {
  python: "",
  dataDirectory: "",
  startDaemon: true,
  recall: { scope: "all", limit: 20, delayMs: 120 },
  statusBar: true,
  sessionsLimit: 200,
};

test("settings have their defaults", () => {
  assert.deepEqual(readSettings(), DEFAULTS);
});

test("a value of another kind, as a file of settings may hold, is the default", () => {
  for (const wrong of [null, {}, [], Number.NaN]) {
    for (const name of ["python", "dataDirectory", "startDaemon", "recall.scope", "recall.limit", "recall.delayMs", "statusBar", "sessions.limit"]) {
      editor.settings.set(`palace.${name}`, wrong);
    }
    assert.deepEqual(readSettings(), DEFAULTS);
  }
  editor.settings.set("palace.recall.scope", "everywhere");
  editor.settings.set("palace.recall.limit", "20");
  assert.deepEqual(readSettings(), DEFAULTS);
});

test("a number out of its bounds is the nearest within", () => {
  editor.settings.set("palace.recall.limit", 5_000);
  editor.settings.set("palace.recall.delayMs", -1);
  editor.settings.set("palace.sessions.limit", 20.6);
  const { recall, sessionsLimit } = readSettings();
  assert.deepEqual([recall.limit, recall.delayMs, sessionsLimit], [100, 0, 21]);
});
