import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { isFirstToTell, SPAN_MS } from "../../src/core/onceAmongWindows";

/** The beginning of a span. */
const BEGIN_MS = 1_000 * SPAN_MS;

let root: string;
let directory: string;

beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), "pal-once-"));
  directory = path.join(root, "storage", "told");
});

afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

test("of the windows that want to tell the same, the first one does", () => {
  const told = [0, 0, 5, SPAN_MS - 1].map((afterMs) => isFirstToTell(directory, "it crashed", BEGIN_MS + afterMs));
  assert.deepEqual(told, [true, false, false, false]);
  assert.ok(isFirstToTell(directory, "it is of another version", BEGIN_MS));
});

test("what was told at the end of a span is not told again at the beginning of the next one", () => {
  assert.ok(isFirstToTell(directory, "it crashed", BEGIN_MS - 10));
  assert.ok(!isFirstToTell(directory, "it crashed", BEGIN_MS));
  assert.ok(!isFirstToTell(directory, "it crashed", BEGIN_MS + SPAN_MS - 11));
  assert.ok(isFirstToTell(directory, "it crashed", BEGIN_MS + SPAN_MS - 10));
});

test("old files go, others stay", () => {
  isFirstToTell(directory, "it crashed", BEGIN_MS);
  isFirstToTell(directory, "it hangs", BEGIN_MS + SPAN_MS);
  writeFileSync(path.join(directory, "notes"), "");
  isFirstToTell(directory, "it crashed", BEGIN_MS + 2 * SPAN_MS);
  const spans = readdirSync(directory).map((name) => name.split("-").at(-1));
  assert.deepEqual(spans.sort(), ["1001", "1002", "notes"]);
});

test("where nothing can be written, everybody tells", () => {
  writeFileSync(path.join(root, "storage"), "");
  assert.ok(isFirstToTell(directory, "it crashed", BEGIN_MS));
  assert.ok(isFirstToTell(directory, "it crashed", BEGIN_MS));
});
