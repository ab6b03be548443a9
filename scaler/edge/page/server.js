// Asks the scaler: JSON by GET, and the stream that says when there is news.

const TOKEN = "scaler-token";
const SILENT_AFTER = 40_000; // a heartbeat comes every 15 s
const RETRY_LEAST = 1_000;
const RETRY_MOST = 15_000;

/** What the scaler answered instead of what was asked for; the message is its own sentence. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Keep the token for this tab only; it is gone when the tab closes. */
export function keepToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function ask(path, signal) {
  const options = { headers: headers(), signal, cache: "no-store", credentials: "same-origin" };
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  let message = `the scaler answered with status ${answer.status}`;
  try {
    message = (await answer.json()).error.message;
  } catch {
    // A proxy's own page says nothing that helps here.
  }
  throw new Refused(answer.status, message);
}

/** Ask for JSON. Raises Refused, or TypeError where nobody answers. */
export async function get(path, signal) {
  return (await ask(path, signal)).json();
}

/** Return the path of a workload in the interface. */
export function pathOf({ namespace, name, trigger }, below = "", query = {}) {
  const place = `${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  const asked = new URLSearchParams(trigger ? { trigger, ...query } : query);
  return `api/v1/workloads/${place}${below}?${asked}`;
}

/**
 * The stream of news, opened anew whenever it ends. It is read by fetch, since EventSource cannot
 * send a token. A hidden page lets go of its stream: browsers allow only six connections.
 */
export class Feed {
  constructor({ onNews, onLost, onLive, onDenied }) {
    this.on = { onNews, onLost, onLive, onDenied };
    this.lostSince = null;
    this.pause = RETRY_LEAST;
    document.addEventListener("visibilitychange", () => this.open());
  }

  /** Open the stream, or close it while nobody looks. */
  open() {
    this.close();
    if (document.hidden) return;
    this.stop = new AbortController();
    this.run(this.stop);
  }

  close() {
    clearTimeout(this.timer);
    this.stop?.abort();
  }

  async run(stop) {
    try {
      const answer = await ask("api/v1/events", stop.signal);
      await this.read(answer.body.getReader(), stop);
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        this.on.onDenied(error);
        return;
      }
    }
    if (stop === this.stop && !document.hidden) this.retry();
  }

  async read(reader, stop) {
    const decoder = new TextDecoder();
    let rest = "";
    this.listen(stop);
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.listen(stop);
      this.live();
      const events = (rest + decoder.decode(value, { stream: true })).split("\n\n");
      rest = events.pop();
      if (events.some((event) => event.includes("event: board"))) this.on.onNews();
    }
  }

  /** Give a stream up that has said nothing for longer than its heartbeats are apart. */
  listen(stop) {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => stop.abort(), SILENT_AFTER);
  }

  live() {
    this.lostSince = null;
    this.pause = RETRY_LEAST;
    this.on.onLive();
  }

  retry() {
    this.lostSince ??= Date.now() / 1000;
    this.on.onLost(this.lostSince);
    this.timer = setTimeout(() => this.open(), this.pause);
    this.pause = Math.min(RETRY_MOST, this.pause * 2);
  }
}
