/** The daemon's package that the extension brings along. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import * as path from "node:path";

import { isNewer } from "./versions";

/** What is installed: a wheel, or in development the repository's source directory. */
export interface Package {
  readonly path: string;
  /** Empty for a source directory. */
  readonly version: string;
}

/**
 * Finds what to install: the newest wheel in the extension's `dist`, else the source directory beside the extension.
 *
 * @param extension The extension's directory.
 */
export function packageOf(extension: string): Package | undefined {
  const dist = path.join(extension, "dist");
  const wheels = existsSync(dist) ? readdirSync(dist).flatMap((name) => wheel(dist, name)) : [];
  const newest = wheels.reduce<Package | undefined>((best, one) => (best && !isNewer(one.version, best.version) ? best : one), undefined);
  return newest ?? sourceOf(path.dirname(extension));
}

function wheel(dist: string, name: string): Package[] {
  const version = /^palace_daemon-([^-]+)-.*\.whl$/.exec(name)?.[1];
  return version === undefined ? [] : [{ path: path.join(dist, name), version }];
}

function sourceOf(directory: string): Package | undefined {
  const project = path.join(directory, "pyproject.toml");
  const isOurs = existsSync(project) && /^name = "palace-daemon"/m.test(readFileSync(project, "utf8"));
  return isOurs ? { path: directory, version: "" } : undefined;
}
