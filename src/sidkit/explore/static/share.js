// The address has all of a view: table, prefix, pages, order, side by side. The button copies it.

export function share() {
  const button = document.getElementById("share");
  const name = button.textContent;
  let timer;
  const say = (text) => {
    clearTimeout(timer);
    button.textContent = text;
    document.getElementById("status").textContent = text;
    timer = setTimeout(() => { button.textContent = name; }, 2000);
  };
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href);
      say("Link copied");
    } catch { // browsers refuse it on pages that are neither local nor encrypted
      window.prompt("The address of this view", location.href);
    }
  });
}
