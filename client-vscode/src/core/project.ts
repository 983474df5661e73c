/**
 * Which project a folder of the window belongs to, as the daemon counts projects (server/palace_daemon/repositories.py):
 * the repository that it lies in, and of a worktree the main repository.
 *
 * The daemon's filter takes a project's path, or a directory above projects; a folder inside a repository, or a worktree
 * elsewhere, would match nothing as it is.
 */

import { existsSync, readFileSync, realpathSync, statSync } from "node:fs";
import * as path from "node:path";

import { lastName } from "./wording";

export interface Project {
  /** Absolute. */
  readonly path: string;
  readonly name: string;
}

/** Looks at a few small files at and above `folder`, and never throws; a folder that is not there is its own project. */
export function projectOf(folder: string): Project {
  const found = repositoryAbove(real(folder)) ?? real(folder);
  return { path: found, name: lastName(found) };
}

function repositoryAbove(folder: string): string | undefined {
  for (let at = folder; ; at = path.dirname(at)) {
    const root = repositoryAt(at);
    if (root !== undefined) return root;
    if (path.dirname(at) === at) return undefined;
  }
}

function repositoryAt(directory: string): string | undefined {
  const dotGit = path.join(directory, ".git");
  const pointer = textOf(dotGit);
  if (pointer === undefined) return existsSync(path.join(dotGit, "HEAD")) ? directory : undefined;
  const gitDirectory = /^gitdir:\s*(.+?)\s*$/m.exec(pointer)?.[1];
  if (gitDirectory === undefined) return undefined;
  const data = path.resolve(directory, gitDirectory);
  const common = textOf(path.join(data, "commondir"));
  if (common === undefined) return directory; // a submodule: its own project
  const main = path.resolve(data, common.trim());
  const worktree = /^\s*worktree\s*=\s*"?(.+?)"?\s*$/m.exec(textOf(path.join(main, "config")) ?? "")?.[1];
  if (worktree !== undefined) return path.resolve(main, worktree);
  return path.basename(main).startsWith(".") ? path.dirname(main) : main;
}

function real(folder: string): string {
  let found: string;
  try {
    found = realpathSync(folder);
  } catch {
    found = path.normalize(folder);
  }
  return found.replace(/^[a-z](?=:)/, (drive) => drive.toUpperCase()); // the editor writes c:, the daemon C:
}

function textOf(file: string): string | undefined {
  try {
    return statSync(file).isFile() ? readFileSync(file, "utf8") : undefined;
  } catch {
    return undefined;
  }
}
