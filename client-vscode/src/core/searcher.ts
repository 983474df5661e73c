/** Asks as somebody types: after a short pause, one question at a time, and only the newest answer counts. */

import { type Clock, realClock } from "./timing";

/** What comes of it. None of these is called after `dispose`, nor for a question that a newer one has overtaken. */
export interface Hearing<Question, Answer> {
  onAnswer(answer: Answer, question: Question): void;
  /** Once for each question that failed; a question that was withdrawn does not fail. */
  onError(error: unknown, question: Question): void;
  /** Whether an answer is awaited, from the first key on; told when it changes. */
  onBusy(isBusy: boolean): void;
}

export class Searcher<Question, Answer> {
  readonly #ask: (question: Question, signal: AbortSignal) => Promise<Answer>;
  readonly #hearing: Hearing<Question, Answer>;
  readonly #delayMs: () => number;
  readonly #clock: Clock;
  #timer: { dispose(): void } | undefined;
  #asked: AbortController | undefined;
  #isBusy = false;
  #isDisposed = false;

  /**
   * @param ask Is given a signal that is raised when the answer is not wanted any more.
   * @param delayMs The pause after a key, read anew each time.
   */
  constructor(
    ask: (question: Question, signal: AbortSignal) => Promise<Answer>,
    hearing: Hearing<Question, Answer>,
    delayMs: () => number,
    clock: Clock = realClock,
  ) {
    this.#ask = ask;
    this.#hearing = hearing;
    this.#delayMs = delayMs;
    this.#clock = clock;
  }

  /** Asks after the pause, unless another key comes. What was asked before is withdrawn at once: it costs the daemon time. */
  later(question: Question): void {
    if (this.#isDisposed) return;
    this.#withdraw();
    this.#tellBusy(true);
    this.#timer = this.#clock.after(this.#delayMs(), () => {
      this.#timer = undefined;
      void this.#run(question);
    });
  }

  /** Asks at once: for what was not typed. */
  now(question: Question): void {
    if (this.#isDisposed) return;
    this.#withdraw();
    this.#tellBusy(true);
    void this.#run(question);
  }

  /** Whether an answer is awaited. */
  get isBusy(): boolean {
    return this.#isBusy;
  }

  get isDisposed(): boolean {
    return this.#isDisposed;
  }

  /** Withdraws everything, for good; nothing is told any more. */
  dispose(): void {
    this.#isDisposed = true;
    this.#withdraw();
  }

  async #run(question: Question): Promise<void> {
    const asked = new AbortController();
    this.#asked = asked;
    let answer: Answer;
    try {
      answer = await this.#ask(question, asked.signal);
    } catch (error) {
      if (this.#finish(asked)) this.#hearing.onError(error, question);
      return;
    }
    if (this.#finish(asked)) this.#hearing.onAnswer(answer, question);
  }

  /** Returns whether the question is still the newest, and ends it. */
  #finish(asked: AbortController): boolean {
    if (this.#asked !== asked) return false;
    this.#asked = undefined;
    this.#tellBusy(false);
    return true;
  }

  #withdraw(): void {
    this.#timer?.dispose();
    this.#timer = undefined;
    const asked = this.#asked;
    this.#asked = undefined; // first, so that an answer that is already on its way counts as overtaken
    asked?.abort();
  }

  #tellBusy(isBusy: boolean): void {
    if (this.#isDisposed || this.#isBusy === isBusy) return;
    this.#isBusy = isBusy;
    this.#hearing.onBusy(isBusy);
  }
}
