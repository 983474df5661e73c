import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import * as path from "node:path";
import test from "node:test";

import { projectOf } from "../../src/core/project";

function inTree(run: (root: string) => void): void {
  const root = realpathSync(mkdtempSync(path.join(tmpdir(), "palace-project-")));
  try {
    run(root);
  } finally {
    rmSync(root, { recursive: true });
  }
}

function write(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}

test("a folder inside a repository belongs to the repository", () => {
  inTree((root) => {
    write(`${root}/atlas/.git/HEAD`, "ref: refs/heads/main\n");
    mkdirSync(`${root}/atlas/packages/tiles`, { recursive: true });
    assert.deepEqual(projectOf(`${root}/atlas/packages/tiles`), { path: `${root}/atlas`, name: "atlas" });
  });
});

test("a worktree belongs to the main repository", () => {
  inTree((root) => {
    write(`${root}/atlas/.git/HEAD`, "ref: refs/heads/main\n");
    write(`${root}/atlas/.git/worktrees/fix/commondir`, "../..\n");
    write(`${root}/elsewhere/fix/.git`, `gitdir: ${root}/atlas/.git/worktrees/fix\n`);
    assert.equal(projectOf(`${root}/elsewhere/fix`).path, `${root}/atlas`);
  });
});

test("a submodule is its own project", () => {
  inTree((root) => {
    write(`${root}/atlas/.git/HEAD`, "ref: refs/heads/main\n");
    write(`${root}/atlas/.git/modules/lib/HEAD`, "ref: refs/heads/main\n");
    write(`${root}/atlas/lib/.git`, "gitdir: ../.git/modules/lib\n");
    assert.equal(projectOf(`${root}/atlas/lib`).path, `${root}/atlas/lib`);
  });
});

test("a folder without a repository, one above repositories, and one that is gone are themselves", () => {
  inTree((root) => {
    write(`${root}/src/atlas/.git/HEAD`, "ref: refs/heads/main\n");
    assert.equal(projectOf(`${root}/src`).path, `${root}/src`);
    assert.equal(projectOf(`${root}/gone`).path, `${root}/gone`);
  });
});

test("a link to a folder is where it leads", { skip: process.platform === "win32" }, () => {
  inTree((root) => {
    write(`${root}/atlas/.git/HEAD`, "ref: refs/heads/main\n");
    symlinkSync(`${root}/atlas`, `${root}/short`);
    assert.equal(projectOf(`${root}/short`).path, `${root}/atlas`);
  });
});
