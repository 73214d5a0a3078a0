//! The page's style: one column of reading width, system letters, light and dark by the reader's setting, usable from 320 pixels on.

/// The style sheet, besides that of the plots.
pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--paper:#fcfbf8;--card:#fff;--ink:#22262b;--faint:#5f6871;--line:#e2e0da;--link:#0a5c8f;
--good:#1f7a4d;--good-bg:#e3f3ea;--off:#9a5b00;--off-bg:#fbeed7;--cons:#4b5f8a;--cons-bg:#e7ecf6;--read:#6d5a00;--read-bg:#f6f0d2;--edge:#a0336b;--edge-bg:#f8e4ee;--none:#5f656b;--none-bg:#eceded}
@media(prefers-color-scheme:dark){:root{--paper:#14171a;--card:#1b1f23;--ink:#e4e7ea;--faint:#9aa4ae;--line:#30363d;--link:#7cc4f0;
--good:#6fd3a0;--good-bg:#16301f;--off:#f0b860;--off-bg:#372a12;--cons:#a9bdf0;--cons-bg:#1f2940;--read:#e0cc4a;--read-bg:#312d12;--edge:#f09ac4;--edge-bg:#3a1a2a;--none:#a9b0b7;--none-bg:#272b30}}
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
.tally{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.4rem,1fr));gap:.75rem;margin:1.5rem 0 .75rem;padding:0;list-style:none;max-width:66rem}.tally small{line-height:1.3;display:block;margin-top:.15rem}
.tally li{border-radius:.6rem;padding:.7rem .9rem}.tally b{display:block;font-size:1.75rem;line-height:1.15;font-weight:650;font-variant-numeric:tabular-nums}
.strip{display:flex;height:.7rem;border-radius:.35rem;overflow:hidden;max-width:66rem;gap:2px}.strip span{display:block;min-width:2px;background:currentColor}
.strip.small{height:.4rem;max-width:20rem;margin:.6rem 0 1rem}
.reproduced{color:var(--good)}.differs{color:var(--off)}.construction{color:var(--cons)}.reading,.another{color:var(--read)}.edge{color:var(--edge)}.nothing{color:var(--none)}
li.reproduced,.badge.reproduced,.mark.reproduced,.chip.reproduced{background:var(--good-bg)}li.differs,.badge.differs,.mark.differs,.chip.differs{background:var(--off-bg)}
li.construction,.badge.construction,.mark.construction,.chip.construction{background:var(--cons-bg)}li.reading,.badge.reading,.mark.reading,.chip.reading,li.another,.badge.another,.mark.another,.chip.another{background:var(--read-bg)}.mark.another,.badge.another{outline:1px dashed currentColor;outline-offset:-2px}.strip .another{opacity:.6}
li.edge,.badge.edge,.mark.edge,.chip.edge{background:var(--edge-bg)}li.nothing,.badge.nothing,.mark.nothing,.chip.nothing{background:var(--none-bg)}
.contents{margin:1.25rem 0 0;max-width:60rem}.contents p{max-width:none;line-height:2}.mark{display:inline-block;border-radius:.35rem;padding:0 .4rem;font-size:.82rem;line-height:1.5;text-decoration:none;color:inherit}
.mark.reproduced{color:var(--good)}.mark.differs{color:var(--off)}.mark.construction{color:var(--cons)}.mark.reading,.mark.another{color:var(--read)}.mark.edge{color:var(--edge)}.mark.nothing{color:var(--none)}.mark:hover{text-decoration:underline}
.filter{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;margin:.5rem 0}.filter input[type=search]{font:inherit;padding:.25rem .5rem;border:1px solid var(--line);border-radius:.4rem;background:var(--card);color:inherit;min-width:14rem}
.chips{display:flex;flex-wrap:wrap;gap:.35rem}.chip{border-radius:1rem;padding:.12rem .6rem;font-size:.85rem;cursor:pointer}
.finding{border-left:3px solid var(--link);padding-left:.7rem;font-size:.93rem;max-width:none}.checks table{font-size:.86rem}.checks{margin:.6rem 0}.checks td.number{white-space:normal;text-align:left;min-width:5rem}
.meter{display:block;height:.35rem;border-radius:.2rem;background:var(--line);margin-top:.25rem;max-width:11rem}.meter span{display:block;height:100%;border-radius:.2rem;background:var(--link)}.meter.low span{background:var(--edge)}.low-share{color:var(--edge);font-weight:600}.meter.all span{background:var(--cons)}.cite pre{font-size:.8rem;line-height:1.4;overflow-x:auto;white-space:pre;background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.6rem .8rem;margin:.35rem 0}.quick{border-radius:.35rem;padding:0 .35rem;background:var(--edge-bg);color:var(--edge);white-space:nowrap}
.tornado svg{max-width:34rem}.plot .band{fill:var(--faint);opacity:.18}[hidden]{display:none!important}
.badge{display:inline-block;border-radius:1rem;padding:.08rem .6rem;font-size:.82rem;font-weight:600;white-space:nowrap}
.claim{display:grid;grid-template-columns:9rem minmax(0,1fr) minmax(15rem,21rem);gap:.25rem 1.5rem;padding:1.1rem 0;border-top:1px solid var(--line)}
.claim h4 a{color:inherit;text-decoration:none}.claim h4{margin:0;font-size:1rem;font-weight:650}.claim h4+.badge{margin-top:.3rem}
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
@media(max-width:52rem){.claim{grid-template-columns:1fr;gap:.5rem}.claim>dl{order:1}.claim>div:not(.head){order:2}.claim .head{display:flex;gap:.7rem;align-items:baseline}.claim h4+.badge{margin-top:0}}
@media(max-width:40rem){main,header,footer{padding-left:.85rem;padding-right:.85rem}nav ul{padding-left:.85rem;padding-right:.85rem}figure{padding:.55rem .4rem .4rem}.cards,.cards tbody,.cards tr,.cards td,.cards th{display:block}.cards thead{display:none}.cards tr{border-top:1px solid var(--line);padding:.55rem .75rem}
.cards tr:first-child{border-top:0}.cards td,.cards th{border:0;padding:.08rem 0;text-align:left;white-space:normal}.cards td.number{text-align:left}
.cards td[data-name]::before{content:attr(data-name) ' ';color:var(--faint)}.cards td:empty{display:none}}
@media print{nav,.filter{display:none}figure{break-inside:avoid}.claim{break-inside:auto}.claim .head,.claim .text,tr{break-inside:avoid}h2,h3{break-after:avoid}body{font-size:11pt}.scroll{overflow:visible}}
";

/// The filter by verdict and by words; without it every claim is shown.
pub(super) const SCRIPT: &str = "\
(()=>{const all=[...document.querySelectorAll('article.claim')],marks=[...document.querySelectorAll('a.mark')],\
search=document.getElementById('search'),boxes=[...document.querySelectorAll('input[name=verdict]')],found=document.getElementById('found');\
const show=()=>{const on=new Set(boxes.filter(b=>b.checked).map(b=>b.value)),words=search.value.toLowerCase().split(/\\s+/).filter(Boolean);let n=0;\
for(const a of all){const t=(a.id+' '+a.textContent).toLowerCase();const ok=on.has(a.dataset.verdict)&&words.every(w=>t.includes(w));a.hidden=!ok;if(ok)n++;\
const m=marks.find(m=>m.hash==='#'+a.id);if(m)m.style.opacity=ok?1:.25}\
found.textContent=n===all.length?'':n+' of '+all.length+' claims'};\
search.addEventListener('input',show);boxes.forEach(b=>b.addEventListener('change',show));show()})()";
