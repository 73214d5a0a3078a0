//! Each vector kernel beside a plain loop that does the same on the same memory.
//!
//! ```text
//! cargo run --release -p hanare-memory --example kernels [MIB] [NAME...]
//! ```
//!
//! The table has 512 MiB unless told otherwise, more than any cache, on pages of 4 KiB. Both sides run in turn, five times
//! after a first run that is not counted; the medians are shown. A ratio above 1 says that the kernel was faster.

use hanare_memory::{Window, vector};
use hanare_protocol::element::{Element, Operator, Range, Summary, Value};
use hanare_protocol::shape::{Checked, Dim, Indexed, Shape, Strided, Subarray};
use hanare_protocol::wire::command::Update;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const ROUNDS: usize = 5;

/// Elements that a case of scattered ones moves.
const COUNT: usize = 1 << 20;

/// Memory of one's own on pages of 4 KiB, never given back.
fn memory(len: usize) -> &'static mut [u8] {
    // SAFETY: fresh memory of that length, which nobody else knows.
    unsafe {
        let ptr = mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let ptr = ptr.expect("memory for the table");
        // Where the kernel has no huge pages there is nothing to turn off.
        let _ = madvise(ptr, len, Advice::LinuxNoHugepage);
        std::slice::from_raw_parts_mut(ptr.cast(), len)
    }
}

/// The words of a buffer that [`memory`] made.
fn words<T: Copy>(bytes: &[u8]) -> &[T] {
    // SAFETY: it begins on a page, and every bit pattern is such a number.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

fn words_mut<T: Copy>(bytes: &mut [u8]) -> &mut [T] {
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// Buffers that both sides use by turns, never at once.
struct Bench {
    table: &'static mut [u8],
    flat: &'static mut [u8],
    only: Vec<String>,
}

/// Windows of the two buffers.
fn windows(table: &mut [u8], flat: &mut [u8]) -> (Window, Window) {
    // SAFETY: the buffers live as long as the process, and are used through these windows alone while a kernel runs.
    unsafe { (Window::of_mut(table), Window::of_mut(flat)) }
}

impl Bench {
    /// Runs both sides by turns; each gets the table and the flat buffer.
    fn case(
        &mut self,
        name: &str,
        bytes: u64,
        mut kernel: impl FnMut(Window, Window),
        mut plain: impl FnMut(&mut [u8], &mut [u8]),
    ) {
        if !self.only.is_empty() && !self.only.iter().any(|only| name.contains(only.as_str())) {
            return;
        }
        let mut times = [Vec::new(), Vec::new()];
        for round in 0..=ROUNDS {
            let start = worked();
            let (table, flat) = windows(self.table, self.flat);
            kernel(table, flat);
            let middle = worked();
            plain(self.table, self.flat);
            if round > 0 {
                times[0].push(middle - start);
                times[1].push(worked() - middle);
            }
        }
        let [kernel, plain] = times.map(median);
        let speed = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
        let ratio = plain.as_secs_f64() / kernel.as_secs_f64();
        println!("{name:40} {:8.2} {:8.2} {ratio:8.2}", speed(kernel), speed(plain));
    }
}

/// Time for which this thread has had a processor. What others do on the machine counts less than by the clock on the wall.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn check<'a>(shape: impl Into<Shape<'a>>, table: &[u8]) -> Checked<'a> {
    shape.into().check("table", table.len() as u64).expect("shapes lie in the table")
}

/// Numbers below `limit` without order.
fn scattered(count: usize, limit: usize) -> Vec<u32> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let next = |state: &mut u64| {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    };
    (0..count).map(|_| (next(&mut state) % limit as u64) as u32).collect()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let len = arguments.next().map_or(512, |mib| mib.parse().expect("MiB as a number")) << 20;
    let mut bench = Bench { table: memory(len), flat: memory(len), only: arguments.collect() };
    for (k, word) in words_mut::<u64>(bench.table).iter_mut().enumerate() {
        *word = (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    }
    bench.flat.copy_from_slice(bench.table);
    println!("{:40} {:>8} {:>8} {:>8}", "useful GB/s", "kernel", "plain", "ratio");
    even(&mut bench);
    indexed(&mut bench);
    contiguous(&mut bench);
    whole_numbers(&mut bench);
    floats(&mut bench);
    updates(&mut bench);
}

/// Strided blocks and sub-arrays.
fn even(bench: &mut Bench) {
    for stride in [16, 64, 256, 1024, 4096] {
        let count = (bench.table.len() / stride).min(4 * COUNT);
        let shape = check(Strided { offset: 0, block: 8, count: count as u64, stride: stride as u64 }, bench.table);
        let step = stride / 8;
        bench.case(
            &format!("gather 8 B, stride {stride}"),
            shape.len(),
            |table, flat| vector::gather(table, &shape, flat.slice(0, count * 8)).unwrap(),
            |table, flat| {
                let table = words::<u64>(table);
                words_mut::<u64>(flat)[..count].iter_mut().zip(table.iter().step_by(step)).for_each(|(to, from)| *to = *from);
            },
        );
        bench.case(
            &format!("scatter 8 B, stride {stride}"),
            shape.len(),
            |table, flat| vector::scatter(flat.slice(0, count * 8), table, &shape).unwrap(),
            |table, flat| {
                let table = words_mut::<u64>(table);
                table.iter_mut().step_by(step).zip(&words::<u64>(flat)[..count]).for_each(|(to, from)| *to = *from);
            },
        );
    }
    for (inner, outer) in [(4u64, 1usize << 18), (64, 1 << 14), (4096, 1 << 8)] {
        let dims = [Dim { count: outer as u64, stride: inner as i64 * 32 }, Dim { count: inner, stride: 16 }];
        let shape = check(Subarray::new(0, 8, &dims).unwrap(), bench.table);
        bench.case(
            &format!("gather 2-D, {inner} of 8 B a line"),
            shape.len(),
            |table, flat| vector::gather(table, &shape, flat.slice(0, shape.len() as usize)).unwrap(),
            |table, flat| {
                let (table, flat, mut at) = (words::<u64>(table), words_mut::<u64>(flat), 0);
                for row in 0..outer {
                    for column in 0..inner as usize {
                        flat[at] = table[row * inner as usize * 4 + column * 2];
                        at += 1;
                    }
                }
            },
        );
    }
    let planes = (bench.table.len() >> 20).min(128);
    let dims = [Dim { count: planes as u64, stride: 1 << 20 }, Dim { count: 128, stride: 4096 }, Dim { count: 64, stride: -8 }];
    let shape = check(Subarray::new(512, 8, &dims).unwrap(), bench.table);
    bench.case(
        "gather 3-D, rows of 512 B backwards",
        shape.len(),
        |table, flat| vector::gather(table, &shape, flat.slice(0, shape.len() as usize)).unwrap(),
        |table, flat| {
            let (table, flat, mut at) = (words::<u64>(table), words_mut::<u64>(flat), 0);
            for plane in 0..planes {
                for row in 0..128 {
                    for column in 0..64 {
                        flat[at] = table[(plane << 17) + (row << 9) + 64 - column];
                        at += 1;
                    }
                }
            }
        },
    );
    for block in [8, 24, 256] {
        let count = COUNT as u64;
        let half = bench.table.len() as u64 / 2;
        let stride = (half / count).min(4 * block).max(block);
        let count = (half / stride).min(count);
        let source = check(Strided { offset: 0, block, count, stride }, bench.table);
        let target = check(Strided { offset: half, block, count, stride }, bench.table);
        bench.case(
            &format!("copy {block} B, stride {stride} to itself"),
            source.len(),
            |table, _| vector::copy_shapes(table, &source, table, &target).unwrap(),
            |table, _| {
                let (front, back) = table.split_at_mut(half as usize);
                let (stride, block) = (stride as usize, block as usize);
                for (from, to) in front.chunks(stride).zip(back.chunks_mut(stride)).take(count as usize) {
                    to[..block].copy_from_slice(&from[..block]);
                }
            },
        );
    }
}

/// Blocks at places without order.
fn indexed(bench: &mut Bench) {
    macro_rules! both {
        ($block:expr, $element:ty) => {{
            let count = COUNT.min(bench.table.len() / 4 / $block);
            let narrow = scattered(count, bench.table.len() / $block);
            let wide: Vec<u64> = narrow.iter().map(|index| u64::from(*index)).collect();
            let bytes = count * $block;
            let shape = check(Indexed::elements(0, $block, &narrow[..]), bench.table);
            let plain = |table: &mut [u8], flat: &mut [u8]| {
                let table = words::<$element>(table);
                words_mut::<$element>(flat).iter_mut().zip(&narrow).for_each(|(to, index)| *to = table[*index as usize]);
            };
            bench.case(
                &format!("gather {} B, 32-bit indices", $block),
                bytes as u64,
                |table, flat| vector::gather(table, &shape, flat.slice(0, bytes)).unwrap(),
                plain,
            );
            let wide_shape = check(Indexed::elements(0, $block, &wide[..]), bench.table);
            bench.case(
                &format!("gather {} B, 64-bit indices", $block),
                bytes as u64,
                |table, flat| vector::gather(table, &wide_shape, flat.slice(0, bytes)).unwrap(),
                plain,
            );
            bench.case(
                &format!("gather {} B, staged by 256 KiB", $block),
                bytes as u64,
                |table, flat| {
                    for at in (0..bytes).step_by(256 << 10) {
                        let part = flat.slice(0, (bytes - at).min(256 << 10));
                        vector::gather_part(table, &shape, at as u64, part).unwrap();
                    }
                },
                |table, flat| {
                    let table = words::<$element>(table);
                    for list in narrow.chunks((256 << 10) / $block) {
                        words_mut::<$element>(flat).iter_mut().zip(list).for_each(|(to, index)| *to = table[*index as usize]);
                    }
                },
            );
            bench.case(
                &format!("scatter {} B, 32-bit indices", $block),
                bytes as u64,
                |table, flat| vector::scatter(flat.slice(0, bytes), table, &shape).unwrap(),
                |table, flat| {
                    let table = words_mut::<$element>(table);
                    words::<$element>(flat).iter().zip(&narrow).for_each(|(from, index)| table[*index as usize] = *from);
                },
            );
        }};
    }
    both!(1, u8);
    both!(4, u32);
    both!(8, u64);
    both!(16, [u64; 2]);
    both!(24, [u64; 3]);
    both!(64, [u64; 8]);
    both!(512, [u64; 64]);
    both!(4096, [u64; 512]);
}

/// Fill and compare.
fn contiguous(bench: &mut Bench) {
    bench.flat.copy_from_slice(bench.table);
    let shape = check(Shape::contiguous(0, bench.table.len() as u64), bench.table);
    let len = shape.len();
    bench.case(
        "compare",
        len,
        |table, flat| {
            black_box(vector::compare_part(table, &shape, 0, flat).unwrap());
        },
        |table, flat| {
            black_box(table == flat);
        },
    );
    let count = COUNT as u64;
    let strided = check(Strided { offset: 0, block: 8, count, stride: 64 }, bench.table);
    for k in 0..COUNT {
        words_mut::<u64>(bench.flat)[k] = words::<u64>(bench.table)[8 * k];
    }
    bench.case(
        "compare 8 B, stride 64",
        strided.len(),
        |table, flat| {
            black_box(vector::compare_part(table, &strided, 0, flat.slice(0, strided.len() as usize)).unwrap());
        },
        |table, flat| {
            let table = words::<u64>(table).iter().step_by(8);
            black_box(table.zip(&words::<u64>(flat)[..COUNT]).position(|(one, other)| one != other));
        },
    );
    // On the flat buffer: the table keeps its numbers.
    bench.case(
        "fill, 1 B pattern",
        len,
        |_, flat| vector::fill_part(flat, &shape, 0, len, &[7]).unwrap(),
        |_, flat| flat.fill(7),
    );
    bench.case(
        "fill, 8 B pattern",
        len,
        |_, flat| vector::fill_part(flat, &shape, 0, len, &1.5f64.to_le_bytes()).unwrap(),
        |_, flat| words_mut::<f64>(flat).fill(1.5),
    );
    bench.case(
        "fill 8 B, stride 64",
        strided.len(),
        |_, flat| vector::fill_part(flat, &strided, 0, strided.len(), &1.5f64.to_le_bytes()).unwrap(),
        |_, flat| words_mut::<f64>(flat).iter_mut().step_by(8).take(COUNT).for_each(|word| *word = 1.5),
    );
    bench.flat.copy_from_slice(bench.table);
}

/// Compiles a loop over a slice once for every machine and once each for the wider vectors. Picks at run time: a plain loop at its best.
macro_rules! tuned {
    ($name:ident, |$numbers:ident: &[$number:ty]| -> $out:ty $body:block) => {
        fn $name($numbers: &[$number]) -> $out {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn widest($numbers: &[$number]) -> $out {
                    $body
                }
                #[target_feature(enable = "avx2")]
                fn wide($numbers: &[$number]) -> $out {
                    $body
                }
                if is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
                {
                    // SAFETY: just looked for.
                    return unsafe { widest($numbers) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: just looked for.
                    return unsafe { wide($numbers) };
                }
            }
            $body
        }
    };
}

const LOW: u64 = 1 << 40;
const HIGH: u64 = 3 << 42;

tuned!(count_and_sum, |numbers: &[u64]| -> (u64, u64) {
    let (mut count, mut sum) = (0, 0u64);
    for x in numbers {
        if (LOW..=HIGH).contains(x) {
            count += 1;
            sum = sum.wrapping_add(*x);
        }
    }
    (count, sum)
});
tuned!(sum_u64, |numbers: &[u64]| -> u64 { numbers.iter().fold(0u64, |sum, x| sum.wrapping_add(*x)) });
tuned!(sum_i32, |numbers: &[i32]| -> (u64, i64) {
    let (mut count, mut sum) = (0, 0i64);
    for x in numbers {
        if (-1_000_000..=1_000_000).contains(x) {
            count += 1;
            sum += i64::from(*x);
        }
    }
    (count, sum)
});
tuned!(sum_u8, |numbers: &[u8]| -> (u64, u64) {
    let (mut count, mut sum) = (0, 0u64);
    for x in numbers {
        if (10..=200).contains(x) {
            count += 1;
            sum += u64::from(*x);
        }
    }
    (count, sum)
});

/// Sums in lanes, which round otherwise than the exact one: what a program that wants speed alone would write.
macro_rules! lanes_sum {
    ($name:ident, $number:ty) => {
        tuned!($name, |numbers: &[$number]| -> (u64, f64) {
            let (mut counts, mut sums) = ([0u64; 16], [0.0f64; 16]);
            for some in numbers.chunks_exact(16) {
                for lane in 0..16 {
                    let x = f64::from(some[lane]);
                    let is_inside = (0.25..=0.75).contains(&x);
                    counts[lane] += u64::from(is_inside);
                    sums[lane] += if is_inside { x } else { 0.0 };
                }
            }
            (counts.iter().sum(), sums.iter().sum())
        });
    };
}
lanes_sum!(sum_f64, f64);
lanes_sum!(sum_f32, f32);

fn reduce(table: Window, shape: &Checked<'_>, element: Element, range: &Range) -> Summary {
    let mut summary = Summary::new(element);
    vector::reduce_part(table, shape, 0, shape.len(), element, range, &mut summary).unwrap();
    summary
}

fn whole_numbers(bench: &mut Bench) {
    let whole = check(Shape::contiguous(0, bench.table.len() as u64), bench.table);
    let len = whole.len();
    let range = Range::Whole(LOW.into(), HIGH.into());
    let found = reduce(windows(bench.table, bench.flat).0, &whole, Element::U64, &range);
    let (count, sum) = count_and_sum(words(bench.table));
    assert!(
        found.count == count && matches!(found.sum(), Value::Whole(whole) if whole as u64 == sum),
        "both sides count the same"
    );
    bench.case(
        "reduce u64 in a range",
        len,
        |table, _| {
            black_box(reduce(table, &whole, Element::U64, &range));
        },
        |table, _| {
            black_box(count_and_sum(words(table)));
        },
    );
    bench.case(
        "reduce u64, all",
        len,
        |table, _| {
            black_box(reduce(table, &whole, Element::U64, &Range::all(Element::U64)));
        },
        |table, _| {
            black_box(sum_u64(words(table)));
        },
    );
    bench.case(
        "reduce i32 in a range",
        len,
        |table, _| {
            black_box(reduce(table, &whole, Element::I32, &Range::Whole(-1_000_000, 1_000_000)));
        },
        |table, _| {
            black_box(sum_i32(words(table)));
        },
    );
    bench.case(
        "reduce u8 in a range",
        len,
        |table, _| {
            black_box(reduce(table, &whole, Element::U8, &Range::Whole(10, 200)));
        },
        |table, _| {
            black_box(sum_u8(table));
        },
    );
    let many = (bench.table.len() / 64).min(4 * COUNT);
    let strided = check(Strided { offset: 0, block: 8, count: many as u64, stride: 64 }, bench.table);
    bench.case(
        "reduce u64, stride 64",
        strided.len(),
        |table, _| {
            black_box(reduce(table, &strided, Element::U64, &range));
        },
        |table, _| {
            let inside = words::<u64>(table).iter().step_by(8).take(many).filter(|x| (LOW..=HIGH).contains(x));
            black_box(inside.fold((0u64, 0u64), |(count, sum), x| (count + 1, sum.wrapping_add(*x))));
        },
    );
}

fn floats(bench: &mut Bench) {
    let whole = check(Shape::contiguous(0, bench.table.len() as u64), bench.table);
    let len = whole.len();
    // On the flat buffer: numbers from 0 to 1, then of any size.
    words_mut::<f64>(bench.flat)
        .iter_mut()
        .zip(words::<u64>(bench.table))
        .for_each(|(to, x)| *to = (*x & 0xffff_ffff) as f64 / 2f64.powi(32));
    let range = Range::Float(0.25, 0.75);
    bench.case(
        "reduce f64 in a range",
        len,
        |_, flat| {
            black_box(reduce(flat, &whole, Element::F64, &range));
        },
        |_, flat| {
            black_box(sum_f64(words(flat)));
        },
    );
    bench.case(
        "reduce f64, all",
        len,
        |_, flat| {
            black_box(reduce(flat, &whole, Element::F64, &Range::all(Element::F64)));
        },
        |_, flat| {
            black_box(sum_f64(words(flat)));
        },
    );
    words_mut::<f64>(bench.flat)
        .iter_mut()
        .zip(words::<u64>(bench.table))
        .for_each(|(to, x)| *to = 2f64.powi((*x % 1000) as i32 - 500) * 1.1);
    bench.case(
        "reduce f64 of any size",
        len,
        |_, flat| {
            black_box(reduce(flat, &whole, Element::F64, &Range::all(Element::F64)));
        },
        |_, flat| {
            black_box(sum_f64(words(flat)));
        },
    );
    words_mut::<f32>(bench.flat).iter_mut().zip(words::<u32>(bench.table)).for_each(|(to, x)| *to = *x as f32 / 2f32.powi(32));
    bench.case(
        "reduce f32 in a range",
        len,
        |_, flat| {
            black_box(reduce(flat, &whole, Element::F32, &range));
        },
        |_, flat| {
            black_box(sum_f32(words(flat)));
        },
    );
    bench.flat.copy_from_slice(bench.table);
}

/// Updates beside loops of the same atomics.
fn updates(bench: &mut Bench) {
    let indices = scattered(COUNT, bench.table.len() / 8);
    let bytes = COUNT * 8;
    let shape = check(Indexed::elements(0, 8, &indices[..]), bench.table);
    let atomics = |table: &mut [u8]| {
        let words = words_mut::<u64>(table);
        // SAFETY: an atomic is as large and aligned as its number, and nobody else has this slice.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<AtomicU64>(), words.len()) }
    };
    let update = |operator, element| Update { operator, element, is_same: false };
    bench.case(
        "xor u64 at random",
        bytes as u64,
        |table, flat| {
            vector::update_part(table, &shape, 0, bytes as u64, update(Operator::Xor, Element::U64), flat.slice(0, bytes), None)
                .unwrap()
        },
        |table, flat| {
            let words_of = atomics(table);
            indices.iter().zip(words::<u64>(flat)).for_each(|(index, x)| {
                words_of[*index as usize].fetch_xor(*x, Relaxed);
            });
        },
    );
    bench.case(
        "xor u64 at random, not atomic",
        bytes as u64,
        |table, flat| {
            vector::update_part(table, &shape, 0, bytes as u64, update(Operator::Xor, Element::U64), flat.slice(0, bytes), None)
                .unwrap()
        },
        |table, flat| {
            let table = words_mut::<u64>(table);
            indices.iter().zip(words::<u64>(flat)).for_each(|(index, x)| table[*index as usize] ^= *x);
        },
    );
    bench.case(
        "fetch-add u64 at random",
        bytes as u64,
        |table, flat| {
            let (operands, olds) = (flat.slice(0, bytes), flat.slice(bytes, bytes));
            vector::update_part(table, &shape, 0, bytes as u64, update(Operator::Add, Element::U64), operands, Some(olds))
                .unwrap()
        },
        |table, flat| {
            let words_of = atomics(table);
            let (operands, olds) = flat.split_at_mut(bytes);
            let olds = words_mut::<u64>(olds).iter_mut();
            indices.iter().zip(words::<u64>(operands)).zip(olds).for_each(|((index, x), old)| {
                *old = words_of[*index as usize].fetch_add(*x, Relaxed);
            });
        },
    );
    bench.case(
        "add f64 at random",
        bytes as u64,
        |table, flat| {
            vector::update_part(table, &shape, 0, bytes as u64, update(Operator::Add, Element::F64), flat.slice(0, bytes), None)
                .unwrap()
        },
        |table, flat| {
            let words_of = atomics(table);
            indices.iter().zip(words::<f64>(flat)).for_each(|(index, x)| {
                let add = |old| Some((f64::from_bits(old) + x).to_bits());
                let _ = words_of[*index as usize].fetch_update(Relaxed, Relaxed, add);
            });
        },
    );
    let whole = check(Shape::contiguous(0, bytes as u64), bench.table);
    bench.case(
        "add u64, contiguous",
        bytes as u64,
        |table, flat| {
            vector::update_part(table, &whole, 0, bytes as u64, update(Operator::Add, Element::U64), flat.slice(0, bytes), None)
                .unwrap()
        },
        |table, flat| {
            atomics(table).iter().zip(words::<u64>(&flat[..bytes])).for_each(|(word, x)| {
                word.fetch_add(*x, Relaxed);
            });
        },
    );
    let one = check(Shape::contiguous(64, 8), bench.table);
    bench.case(
        "add u64, one word a call",
        bytes as u64,
        |table, flat| {
            for k in 0..COUNT {
                let operand = flat.slice(8 * k, 8);
                vector::update_part(table, &one, 0, 8, update(Operator::Add, Element::U64), operand, None).unwrap();
            }
        },
        |table, flat| {
            let word = &atomics(table)[8];
            words::<u64>(&flat[..bytes]).iter().for_each(|x| {
                word.fetch_add(*x, Relaxed);
            });
        },
    );
    let few = check(Indexed::elements(0, 8, &indices[..2]), bench.table);
    bench.case(
        "gather two indexed words a call",
        bytes as u64,
        |table, flat| {
            for k in (0..COUNT).step_by(2) {
                vector::gather(table, black_box(&few), flat.slice(8 * k, 16)).unwrap();
            }
        },
        |table, flat| {
            let table = words::<u64>(table);
            words_mut::<u64>(flat)[..COUNT].chunks_exact_mut(2).for_each(|two| {
                let indices = black_box(&indices[..2]);
                (two[0], two[1]) = (table[indices[0] as usize], table[indices[1] as usize]);
            });
        },
    );
}
