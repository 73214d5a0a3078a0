//! The page's style: one column of reading width, system letters, light and dark by the reader's setting, usable from 320 pixels on.

/// The style sheet, besides that of the plots.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fcfbf8;--card:#fff;--ink:#22262b;--faint:#5f6871;--line:#e2e0da;--link:#0a5c8f;
--good:#1f7a4d;--good-bg:#e3f3ea;--off:#9a5b00;--off-bg:#fbeed7;--hard:#4b5f8a;--hard-bg:#e7ecf6;--none:#6a6f75;--none-bg:#eceded}
@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1b1f23;--ink:#e4e7ea;--faint:#9aa4ae;--line:#30363d;--link:#7cc4f0;
--good:#6fd3a0;--good-bg:#16301f;--off:#f0b860;--off-bg:#372a12;--hard:#a9bdf0;--hard-bg:#1f2940;--none:#a9b0b7;--none-bg:#272b30}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:3.2rem;-webkit-text-size-adjust:100%}
@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif;overflow-wrap:break-word}
main,header,footer{max-width:74rem;margin:0 auto;padding:0 1.25rem}
header{padding-top:2.5rem}
h1{font-size:clamp(1.6rem,4vw,2.2rem);line-height:1.2;margin:0 0 .75rem;font-weight:650;letter-spacing:-.01em}
h2{font-size:1.45rem;line-height:1.25;margin:3.5rem 0 .35rem;font-weight:650;letter-spacing:-.005em}
h3{font-size:1.08rem;margin:2.25rem 0 .75rem;font-weight:650}
p{margin:.5rem 0;max-width:46rem}.lead{font-size:1.08rem}.faint{color:var(--faint)}
a{color:var(--link);text-underline-offset:.15em}
code{font:.88em ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
nav{position:sticky;top:0;z-index:1;background:var(--paper);border-bottom:1px solid var(--line);margin-top:1.5rem}
nav ul{max-width:74rem;margin:0 auto;padding:.55rem 1.25rem;display:flex;gap:.35rem 1.2rem;list-style:none;overflow-x:auto;white-space:nowrap;font-size:.93rem}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
.tally{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.75rem;margin:1.5rem 0 .75rem;padding:0;list-style:none;max-width:46rem}
.tally li{border-radius:.6rem;padding:.7rem .9rem}.tally b{display:block;font-size:1.75rem;line-height:1.15;font-weight:650;font-variant-numeric:tabular-nums}
.strip{display:flex;height:.7rem;border-radius:.35rem;overflow:hidden;max-width:46rem;gap:2px}.strip span{display:block;min-width:2px;background:currentColor}
.strip.small{height:.4rem;max-width:20rem;margin:.6rem 0 1rem}
.reproduced{color:var(--good)}.differs{color:var(--off)}.hardware{color:var(--hard)}.not-tried{color:var(--none)}
li.reproduced,.badge.reproduced{background:var(--good-bg)}li.differs,.badge.differs{background:var(--off-bg)}
li.hardware,.badge.hardware{background:var(--hard-bg)}li.not-tried,.badge.not-tried{background:var(--none-bg)}
.badge{display:inline-block;border-radius:1rem;padding:.08rem .6rem;font-size:.82rem;font-weight:600;white-space:nowrap}
.claim{display:grid;grid-template-columns:8.2rem minmax(0,1fr) minmax(15rem,21rem);gap:.25rem 1.5rem;padding:1.1rem 0;border-top:1px solid var(--line)}
.claim h4{margin:0;font-size:1rem;font-weight:650}.claim h4+.badge{margin-top:.3rem}
.claim .text{margin:0;max-width:none}.claim .reason{margin:.45rem 0 0;color:var(--faint);font-size:.93rem;max-width:none}
dl{margin:0;display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.15rem .8rem;font-size:.93rem;align-content:start}
dt{color:var(--faint)}dd{margin:0}
details{margin:.5rem 0;font-size:.93rem}summary{cursor:pointer;color:var(--link)}
details ul{margin:.35rem 0;padding-left:1.1rem}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,25rem),1fr));gap:1.25rem;margin:1rem 0}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:.8rem .8rem .6rem;min-width:0}
figure svg{display:block;width:100%;height:auto}figcaption{color:var(--faint);font-size:.85rem;padding:.15rem .25rem 0}
.scroll{overflow-x:auto;margin:.75rem 0;border:1px solid var(--line);border-radius:.6rem;background:var(--card)}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;vertical-align:top;padding:.42rem .75rem;border-top:1px solid var(--line)}
thead th{border-top:0;color:var(--faint);font-weight:600;white-space:nowrap}tbody th{font-weight:600;white-space:nowrap}
td.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td.key{white-space:nowrap}
footer{margin-top:4rem;padding-bottom:3rem;color:var(--faint);font-size:.9rem;border-top:1px solid var(--line);padding-top:1rem}
@media(max-width:52rem){.claim{grid-template-columns:1fr;gap:.5rem}.claim .head{display:flex;gap:.7rem;align-items:baseline}.claim h4+.badge{margin-top:0}}
@media(max-width:40rem){main,header,footer{padding-left:.85rem;padding-right:.85rem}nav ul{padding-left:.85rem;padding-right:.85rem}figure{padding:.55rem .4rem .4rem}.cards,.cards tbody,.cards tr,.cards td,.cards th{display:block}.cards thead{display:none}.cards tr{border-top:1px solid var(--line);padding:.55rem .75rem}
.cards tr:first-child{border-top:0}.cards td,.cards th{border:0;padding:.08rem 0;text-align:left;white-space:normal}.cards td.number{text-align:left}
.cards td[data-name]::before{content:attr(data-name) ' ';color:var(--faint)}.cards td:empty{display:none}}
@media print{nav{position:static}.claim,figure{break-inside:avoid}}
";
