//! Random vector commands on regions of random placement do what the same commands do to plain slices.
//!
//! Each case prints its seed when it fails; `HANARE_TEST_SEED=N` runs that one alone.

use crate::support;

use hanare::{
    CreateOptions, Dim, Element, Indexed, Indices, Modify, NodeId, Operator, Placement, Pool, Range, Region, Shape, Strided,
    Subarray, Summary, Value,
};
use support::{TestPool, pattern};

/// A small generator of our own, so that a seed means the same for ever.
struct Prng(u64);

impl Prng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64) as i64
    }
}

const LEN: u64 = 150_000;

/// A shape inside `limit` bytes whose blocks are multiples of `unit` at multiples of `unit`.
fn shape(prng: &mut Prng, unit: u64, limit: u64) -> Shape<'static> {
    loop {
        let offset = prng.below(limit / unit) * unit;
        let longest = [1, 8, 40, 6000][prng.below(4) as usize];
        let block = (1 + prng.below(longest / unit + 1)) * unit;
        let shape = match prng.below(4) {
            0 => Shape::contiguous(offset, block * prng.below(30)),
            1 => Shape::from(Strided { offset, block, count: prng.below(60), stride: block + prng.below(200) * unit }),
            2 => {
                let dims: Vec<Dim> = (0..prng.below(4))
                    .map(|_| Dim { count: prng.below(9), stride: prng.between(-300, 300) * unit as i64 })
                    .collect();
                Shape::from(Subarray::new(offset, block, &dims).unwrap())
            }
            _ => {
                let block = block.min(4096);
                let count = prng.below(300);
                let wide: Vec<u64> = (0..count).map(|_| prng.below(limit / unit)).collect();
                let indices = match prng.below(2) {
                    0 => Indices::Wide(wide.into()),
                    _ => Indices::Narrow(wide.iter().map(|index| *index as u32).collect::<Vec<_>>().into()),
                };
                Shape::from(Indexed { offset: 0, block, scale: unit, indices })
            }
        };
        if shape.by_ref().check("", limit).is_ok() {
            return shape;
        }
    }
}

/// The bytes of a shape, in order.
fn bytes_of(shape: &Shape<'_>, limit: u64) -> Vec<usize> {
    let checked = shape.by_ref().check("", limit).unwrap();
    let block = shape.block();
    checked.block_offsets().flat_map(|at| at..at + block).map(|byte| byte as usize).collect()
}

/// A region and the slice that it should equal.
struct Pair {
    region: Region,
    model: Vec<u8>,
}

impl Pair {
    fn check(&self, what: &str) {
        let mut back = vec![0; self.model.len()];
        self.region.get(0, &mut back).unwrap();
        if back != self.model {
            let at = back.iter().zip(&self.model).position(|(a, b)| a != b).unwrap();
            panic!("{what}: byte {at} is {} and should be {}", back[at], self.model[at]);
        }
    }
}

fn placements() -> [Placement; 4] {
    [Placement::Local, Placement::Node(NodeId(1)), Placement::Interleave(4096), Placement::Interleave(16384)]
}

/// Two spans, so that a border lies at an odd place too.
fn pair(pool: &Pool, prng: &mut Prng, name: &str) -> Pair {
    let options = CreateOptions { placement: placements()[prng.below(4) as usize], ..CreateOptions::default() };
    let first = if prng.below(2) == 0 { LEN } else { 16 * (1 + prng.below(LEN / 16 - 1)) };
    let mut region = pool.create(name, first, &options).unwrap();
    if first < LEN {
        region = pool.resize(name, LEN).unwrap();
    }
    let model = pattern(LEN as usize, prng.next());
    region.put(0, &model).unwrap();
    Pair { region, model }
}

fn put(prng: &mut Prng, pair: &mut Pair) {
    let shape = shape(prng, 1, LEN);
    let bytes = bytes_of(&shape, LEN);
    let from = pattern(bytes.len(), prng.next());
    pair.region.put_shape(shape, &from).unwrap();
    bytes.iter().zip(&from).for_each(|(at, byte)| pair.model[*at] = *byte);
}

fn get(prng: &mut Prng, pair: &mut Pair) {
    let shape = shape(prng, 1, LEN);
    let wanted: Vec<u8> = bytes_of(&shape, LEN).iter().map(|at| pair.model[*at]).collect();
    let mut back = vec![0; wanted.len()];
    pair.region.get_shape(shape.by_ref(), &mut back).unwrap();
    assert!(back == wanted, "get {shape:?}");
    assert!(pair.region.start_get_shape(shape, vec![1; wanted.len()]).unwrap().wait().unwrap() == wanted);
}

/// A list of single bytes of some shape: any two shapes are brought to one length that way.
fn cut(shape: Shape<'static>, limit: u64, len: usize) -> Shape<'static> {
    let bytes = bytes_of(&shape, limit);
    if bytes.len() == len {
        return shape;
    }
    let list: Vec<u64> = bytes[..len].iter().map(|byte| *byte as u64).collect();
    Shape::from(Indexed { offset: 0, block: 1, scale: 1, indices: Indices::Wide(list.into()) })
}

fn two_shapes(prng: &mut Prng, limits: (u64, u64)) -> (Shape<'static>, Shape<'static>) {
    let (a, b) = (shape(prng, 1, limits.0), shape(prng, 1, limits.1));
    let len = bytes_of(&a, limits.0).len().min(bytes_of(&b, limits.1).len());
    (cut(a, limits.0, len), cut(b, limits.1, len))
}

fn get_into(prng: &mut Prng, pair: &mut Pair) {
    let (there, here) = two_shapes(prng, (LEN, 20_000));
    let mut back = pattern(20_000, prng.next());
    let mut wanted = back.clone();
    for (from, to) in bytes_of(&there, LEN).into_iter().zip(bytes_of(&here, 20_000)) {
        wanted[to] = pair.model[from];
    }
    pair.region.get_shape_into(there.by_ref(), &mut back, here.by_ref()).unwrap();
    assert!(back == wanted, "get {there:?} into {here:?}");
}

fn put_from(prng: &mut Prng, pair: &mut Pair) {
    let (there, here) = two_shapes(prng, (LEN, 20_000));
    let from = pattern(20_000, prng.next());
    pair.region.put_shape_from(there.by_ref(), &from, here.by_ref()).unwrap();
    for (to, at) in bytes_of(&there, LEN).into_iter().zip(bytes_of(&here, 20_000)) {
        pair.model[to] = from[at];
    }
}

fn fill(prng: &mut Prng, pair: &mut Pair) {
    let shape = shape(prng, 1, LEN);
    let bytes = bytes_of(&shape, LEN);
    let lens: Vec<usize> = (1..=bytes.len().min(700)).filter(|len| bytes.len().is_multiple_of(*len)).collect();
    let Some(len) = lens.get(prng.below(lens.len().max(1) as u64) as usize) else { return };
    let with = pattern(*len, prng.next());
    pair.region.fill(shape, &with).unwrap();
    bytes.iter().enumerate().for_each(|(k, at)| pair.model[*at] = with[k % len]);
}

fn compare(prng: &mut Prng, pair: &mut Pair) {
    let shape = shape(prng, 1, LEN);
    let mut with: Vec<u8> = bytes_of(&shape, LEN).iter().map(|at| pair.model[*at]).collect();
    assert_eq!(pair.region.compare(shape.by_ref(), &with).unwrap(), None);
    if !with.is_empty() {
        let at = prng.below(with.len() as u64) as usize;
        with[at] ^= 1;
        if at + 7 < with.len() {
            with[at + 7] ^= 128;
        }
        assert_eq!(pair.region.compare(shape, &with).unwrap(), Some(at as u64));
    }
}

const WORDS: [Element; 7] = [Element::U32, Element::I32, Element::U64, Element::I64, Element::F32, Element::F64, Element::U128];

/// Elements that are ordinary numbers, so that sums and orders mean something.
fn numbers(prng: &mut Prng, element: Element, count: usize) -> Vec<u8> {
    (0..count)
        .flat_map(|_| {
            let number = prng.between(-1000, 1000);
            match element {
                Element::F32 => (number as f32 / 8.0).to_le_bytes().to_vec(),
                Element::F64 => (number as f64 / 8.0).to_le_bytes().to_vec(),
                Element::U32 | Element::I32 => (number as i32).to_le_bytes().to_vec(),
                Element::U128 => (i128::from(number) << 32).to_le_bytes().to_vec(),
                _ => number.to_le_bytes().to_vec(),
            }
        })
        .collect()
}

fn apply(operator: Operator, element: Element, old: &[u8], operand: &[u8]) -> Vec<u8> {
    macro_rules! with {
        ($kind:ty, $whole:ty) => {{
            let (a, b) = (<$kind>::from_le_bytes(old.try_into().unwrap()), <$kind>::from_le_bytes(operand.try_into().unwrap()));
            let (x, y) = (<$whole>::from_le_bytes(old.try_into().unwrap()), <$whole>::from_le_bytes(operand.try_into().unwrap()));
            match operator {
                Operator::Add => add(a, b).to_le_bytes().to_vec(),
                Operator::Min => (if b < a { b } else { a }).to_le_bytes().to_vec(),
                Operator::Max => (if b > a { b } else { a }).to_le_bytes().to_vec(),
                Operator::And => (x & y).to_le_bytes().to_vec(),
                Operator::Or => (x | y).to_le_bytes().to_vec(),
                Operator::Xor => (x ^ y).to_le_bytes().to_vec(),
                Operator::Swap => operand.to_vec(),
                Operator::Load => old.to_vec(),
            }
        }};
    }
    trait Number {
        fn plus(self, other: Self) -> Self;
    }
    macro_rules! number {
        ($($kind:ty => $plus:expr),*) => { $(impl Number for $kind { fn plus(self, other: Self) -> Self { $plus(self, other) } })* };
    }
    number!(u32 => u32::wrapping_add, i32 => i32::wrapping_add, u64 => u64::wrapping_add, i64 => i64::wrapping_add,
            u128 => u128::wrapping_add, f32 => |a, b| a + b, f64 => |a, b| a + b);
    fn add<T: Number>(a: T, b: T) -> T {
        a.plus(b)
    }
    match element {
        Element::U32 => with!(u32, u32),
        Element::I32 => with!(i32, u32),
        Element::F32 => with!(f32, u32),
        Element::U64 => with!(u64, u64),
        Element::I64 => with!(i64, u64),
        Element::U128 => with!(u128, u128),
        _ => with!(f64, u64),
    }
}

fn update(prng: &mut Prng, pair: &mut Pair) {
    let element = WORDS[prng.below(7) as usize];
    let operator = *Operator::ALL.iter().cycle().skip(prng.below(8) as usize).find(|operator| operator.fits(element)).unwrap();
    let len = element.len() as usize;
    // Whatever was there becomes numbers first.
    pair.model = numbers(prng, element, LEN as usize / len);
    pair.model.resize(LEN as usize, 0);
    pair.region.put(0, &pair.model).unwrap();
    let shape = shape(prng, 16, LEN);
    let bytes = bytes_of(&shape, LEN);
    let is_same = prng.below(3) == 0;
    let operands = numbers(prng, element, if is_same { 1 } else { bytes.len() / len });
    let mut olds = Vec::new();
    for (k, at) in bytes.chunks(len).map(|element| element[0]).enumerate() {
        let operand = if is_same { &operands[..] } else { &operands[k * len..(k + 1) * len] };
        let old = pair.model[at..at + len].to_vec();
        pair.model[at..at + len].copy_from_slice(&apply(operator, element, &old, operand));
        olds.extend(old);
    }
    let modify = Modify { operator, element };
    if operator != Operator::Load && prng.below(2) == 0 {
        pair.region.update(shape, modify, &operands).unwrap();
    } else {
        let mut back = vec![0; olds.len()];
        pair.region.fetch(shape.by_ref(), modify, &operands, &mut back).unwrap();
        assert!(back == olds, "{operator} {element} {shape:?}");
    }
}

fn swap(prng: &mut Prng, pair: &mut Pair) {
    let element = WORDS[prng.below(7) as usize];
    let len = element.len() as usize;
    let shape = shape(prng, 16, LEN);
    let bytes = bytes_of(&shape, LEN);
    let new = pattern(bytes.len(), prng.next());
    let mut expected: Vec<u8> = bytes.iter().map(|at| pair.model[*at]).collect();
    expected.iter_mut().for_each(|byte| *byte ^= u8::from(prng.below(20) == 0));
    let mut wanted = Vec::new();
    for (k, at) in bytes.chunks(len).map(|element| element[0]).enumerate() {
        let old = pair.model[at..at + len].to_vec();
        if old == expected[k * len..(k + 1) * len] {
            pair.model[at..at + len].copy_from_slice(&new[k * len..(k + 1) * len]);
        }
        wanted.extend(old);
    }
    let mut olds = vec![0; wanted.len()];
    pair.region.compare_and_swap(shape, element, &expected, &new, &mut olds).unwrap();
    assert!(olds == wanted);
}

fn reduce(prng: &mut Prng, pair: &mut Pair) {
    let element = Element::ALL[prng.below(10) as usize];
    let len = element.len() as usize;
    let shape = shape(prng, 8, LEN);
    let bytes = bytes_of(&shape, LEN);
    let (low, high) = (prng.between(-200, 100), prng.between(0, 30_000));
    let range = match element.is_float() {
        true => Range::Float(low as f64 * 1e20, high as f64 * 1e25),
        false => Range::Whole(i128::from(low), i128::from(high)),
    };
    let mut wanted = Summary::new(element);
    for at in bytes.chunks(len).map(|element| element[0]) {
        let raw = &pair.model[at..at + len];
        macro_rules! as_number {
            ($kind:ty) => {
                <$kind>::from_le_bytes(raw.try_into().unwrap())
            };
        }
        let value = match element {
            Element::U8 => Value::Whole(as_number!(u8).into()),
            Element::I8 => Value::Whole(as_number!(i8).into()),
            Element::U16 => Value::Whole(as_number!(u16).into()),
            Element::I16 => Value::Whole(as_number!(i16).into()),
            Element::U32 => Value::Whole(as_number!(u32).into()),
            Element::I32 => Value::Whole(as_number!(i32).into()),
            Element::U64 => Value::Whole(as_number!(u64).into()),
            Element::I64 => Value::Whole(as_number!(i64).into()),
            Element::F32 => Value::Float(as_number!(f32).into()),
            Element::F64 => Value::Float(as_number!(f64)),
            Element::U128 => unreachable!("no reduction takes them"),
        };
        match (value, range) {
            (Value::Whole(value), Range::Whole(low, high)) if (low..=high).contains(&value) => {
                wanted.take_whole(1, value, value, value)
            }
            (Value::Float(value), Range::Float(low, high)) if (low..=high).contains(&value) => {
                wanted.take_floats([value].into_iter())
            }
            _ => {}
        }
    }
    let summary = pair.region.reduce(shape, element, range).unwrap();
    let seen = |summary: &Summary| (summary.count, summary.sum(), summary.min, summary.max);
    assert_eq!(seen(&summary), seen(&wanted), "{element}");
}

fn copy(prng: &mut Prng, pool: &Pool, pairs: &mut [Pair]) {
    let (from_shape, to_shape) = two_shapes(prng, (LEN, LEN));
    let mut targets = bytes_of(&to_shape, LEN);
    let sources = bytes_of(&from_shape, LEN);
    // Blocks named twice get unspecified bytes.
    targets.sort_unstable();
    targets.dedup();
    if targets.len() < sources.len() {
        return;
    }
    let (from, to) = if prng.below(2) == 0 { (0, 1) } else { (1, 0) };
    pool.copy(&pairs[from].region, from_shape.by_ref(), &pairs[to].region, to_shape.by_ref()).unwrap();
    for (source, target) in sources.into_iter().zip(bytes_of(&to_shape, LEN)) {
        pairs[to].model[target] = pairs[from].model[source];
    }
}

fn run_case(pool: &Pool, seed: u64) {
    let mut prng = Prng(seed);
    let names = [format!("a{seed}"), format!("b{seed}")];
    let mut pairs: Vec<Pair> = names.iter().map(|name| pair(pool, &mut prng, name)).collect();
    for step in 0..25 {
        let which = prng.below(2) as usize;
        let pair = &mut pairs[which];
        let what = prng.below(10);
        match what {
            0 => put(&mut prng, pair),
            1 => get(&mut prng, pair),
            2 => get_into(&mut prng, pair),
            3 => put_from(&mut prng, pair),
            4 => fill(&mut prng, pair),
            5 => compare(&mut prng, pair),
            6 => update(&mut prng, pair),
            7 => swap(&mut prng, pair),
            8 => reduce(&mut prng, pair),
            _ => copy(&mut prng, pool, &mut pairs),
        }
        pairs.iter().for_each(|pair| pair.check(&format!("after step {step}, {what}, of seed {seed}")));
    }
    names.iter().for_each(|name| pool.remove(name).unwrap());
}

// FEATURE: D3-F11 D3-F12 D3-F13 D3-F15 D3-F25 RF-F4
#[test]
fn random_commands_on_random_placements_equal_plain_slices() {
    let pool = TestPool::start(3, 64 << 20);
    let client = pool.client(0);
    let only = std::env::var("HANARE_TEST_SEED").ok().map(|seed| seed.parse().expect("a number"));
    // 142 and 148 found fills whose overlapping blocks lost their order; 55 shares that overtook each other.
    let usual = (0..60).chain([142, 148, 180, 188, 267]);
    for seed in only.map_or(usual.collect::<Vec<u64>>(), |seed| vec![seed]) {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_case(&client, seed)));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}
