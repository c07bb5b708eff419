/* Signing in with a key, which is exchanged for a session and then forgotten. */

import { useSignal } from "@preact/signals";
import { ApiError } from "../../api/errors";
import { Button } from "../../parts/controls";
import { Mark } from "../../parts/icons";
import { signIn } from "../../state/session";
import { texts } from "../../texts";

const words = texts.signIn;

export function SignInView() {
  const problem = useSignal("");
  const isBusy = useSignal(false);
  const submit = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget as HTMLFormElement;
    const key = String(new FormData(form).get("key") ?? "").trim();
    if (!key) return void (problem.value = texts.form.needed);
    isBusy.value = true;
    problem.value = "";
    try {
      await signIn(key);
    } catch (error) {
      problem.value = error instanceof ApiError && error.status !== 401 ? error.message : words.wrong;
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <main class="gate">
      <form onSubmit={submit}>
        <span class="brand">
          <Mark />
        </span>
        <div>
          <h1>{words.title}</h1>
          <p class="mid">{words.about}</p>
        </div>
        <div class={`field${problem.value ? " wrong" : ""}`}>
          <label for="key">{words.key}</label>
          <input class="input mono" id="key" name="key" type="password" autocomplete="off" spellcheck={false} aria-describedby="key-help" aria-invalid={Boolean(problem.value)} autoFocus />
          <span class="help" id="key-help" role="alert">
            {problem.value}
          </span>
        </div>
        <Button type="submit" look="main tall" isDisabled={isBusy.value}>
          {words.submit}
        </Button>
        <p class="help">{words.where(location.host)}</p>
      </form>
    </main>
  );
}
