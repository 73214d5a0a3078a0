use super::*;
use proptest::prelude::*;

fn ops() -> impl Strategy<Value = Op> {
    let element = (0..Element::ALL.len()).prop_map(|k| Element::ALL[k]);
    let update = ((0..Operator::ALL.len()).prop_map(|k| Operator::ALL[k]), element.clone(), any::<bool>())
        .prop_map(|(operator, element, is_same)| Update { operator, element, is_same });
    prop_oneof![
        Just(Op::Get),
        Just(Op::Put),
        any::<u32>().prop_map(|address_len| Op::CopyFrom { address_len }),
        Just(Op::CopyTo),
        any::<u32>().prop_map(|pattern_len| Op::Fill { pattern_len }),
        Just(Op::Compare),
        Just(Op::Digest),
        element.clone().prop_map(Op::Reduce),
        update.clone().prop_map(Op::Update),
        update.prop_map(Op::Fetch),
        element.prop_map(Op::CompareAndSwap),
        any::<u32>().prop_map(|lane| Op::Append { lane }),
    ]
}

fn shapes() -> impl Strategy<Value = Shape<'static>> {
    let strided =
        any::<[u64; 4]>().prop_map(|[offset, block, count, stride]| Shape::Strided(Strided { offset, block, count, stride }));
    let dims = proptest::collection::vec(
        (any::<u64>(), any::<i64>()).prop_map(|(count, stride)| Dim { count, stride }),
        1..=DIM_COUNT_MAX,
    );
    let subarray = (any::<u64>(), any::<u64>(), dims)
        .prop_map(|(offset, block, dims)| Shape::Subarray(Subarray::new(offset, block, &dims).unwrap()));
    let indices = prop_oneof![
        proptest::collection::vec(any::<u32>(), 0..9).prop_map(|list| Indices::Narrow(list.into())),
        proptest::collection::vec(any::<u64>(), 0..9).prop_map(|list| Indices::Wide(list.into())),
    ];
    let indexed = (any::<[u64; 3]>(), indices)
        .prop_map(|([offset, block, scale], indices)| Shape::Indexed(Indexed { offset, block, scale, indices }));
    prop_oneof![strided, subarray, indexed]
}

proptest! {
    #[test]
    fn any_bytes_are_a_command_or_refused(bytes: [u8; 32], more: [u8; 32], op in 0u8..13, form in 0u8..26) {
        let mut whole = [0; COMMAND_LEN];
        whole[..32].copy_from_slice(&bytes);
        whole[32..].copy_from_slice(&more);
        for (op, form) in [(bytes[0], bytes[1]), (op, form)] {
            (whole[0], whole[1]) = (op, form);
            if let Ok(command) = Command::decode(&whole) {
                prop_assert_eq!(command.encode(), whole);
                let _ = command.list_len();
            }
        }
    }

    #[test]
    fn a_command_and_its_list_survive_the_wire(
        op in ops(), node: u32, slot: u32, grant: [u8; 16], shape in shapes(), before in prop_oneof![Just(0), any::<u64>()],
    ) {
        let goes_on = before > 0 && op.writes();
        let command = Command { goes_on, ..Command::new(op, node, Slot(slot), Grant(grant), &shape) };
        prop_assert_eq!(Command::decode(&command.encode()), Ok(command));
        let mut list = if goes_on { before.to_le_bytes().to_vec() } else { Vec::new() };
        list.extend(match &shape {
            Shape::Strided(_) => Vec::new(),
            Shape::Subarray(shape) => dims_list(shape),
            Shape::Indexed(shape) => index_bytes(&shape.indices).to_vec(),
        });
        list.resize(list.len().next_multiple_of(8), 0);
        prop_assert_eq!(command.list_len(), Ok(list.len() as u64));
        let words: Vec<u64> = list.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        prop_assert_eq!(command.shape(&words), Ok(shape));
        prop_assert_eq!(command.written_before(&words), if goes_on { before } else { 0 });
    }
}

#[test]
fn a_list_beyond_the_limit_is_refused() {
    let shape = Shape::contiguous(0, 8);
    let command = Command::new(Op::Get, 0, Slot(0), Grant([0; 16]), &shape);
    for (form, count) in [(Form::Wide, u64::MAX), (Form::Narrow, u64::MAX / 4), (Form::Wide, LIST_LEN_MAX / 8 + 1)] {
        assert!(Command { form, count, ..command }.list_len().is_err());
    }
}
