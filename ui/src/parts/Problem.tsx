/* An error in the place of what could not be shown: what it means, and what to do. */

import { ApiError } from "../api/errors";
import { hrefOf } from "../router";
import { texts } from "../texts";
import { Button, CopyButton } from "./controls";
import { Glyph } from "./glyphs";

export function Problem({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const known = error instanceof ApiError ? error : null;
  const title =
    known?.status === 404 ? texts.errors.gone : known?.status === 403 ? texts.errors.refused : known?.status === 0 ? texts.errors.offline : texts.errors.failed;
  return (
    <div class="empty" role="alert">
      <Glyph status={known?.status === 403 ? "cancelled" : "failed"} isBig />
      <h2>{title}</h2>
      <p>{error instanceof Error ? error.message : String(error)}</p>
      {known?.requestId && known.status >= 500 && (
        <p class="quiet row">
          <code>{`${known.code} ${known.requestId}`}</code>
          <CopyButton text={`${known.code} ${known.requestId}`} />
        </p>
      )}
      {known?.status === 404 ? (
        <a class="btn" href={hrefOf(["runs"])}>
          {texts.allRuns}
        </a>
      ) : (
        onRetry && <Button onClick={onRetry}>{texts.tryAgain}</Button>
      )}
    </div>
  );
}
