//! Wisconsin's queries find the same rows in files, in mapped files and in regions, by one rank and by several.

use crate::stage;

use stage::{Stage, each_app, folder, value};

/// Queries and their rows of 3000 tuples.
const ROWS: [(&str, &str); 6] = [("Q1", "100"), ("Q2", "2352"), ("Q3", "1"), ("Q4", "1000"), ("Q6", "1000"), ("Q7", "1")];

// FEATURE: D2-F20 D2-F15
#[test]
fn every_store_and_number_of_ranks_finds_the_same_rows() {
    each_app("wisconsin/wisconsin", &[], |program| {
        let place = folder().join(format!("{}-tables", program.file_name().unwrap().to_string_lossy()));
        std::fs::create_dir(&place).unwrap();
        let place = place.to_str().unwrap();
        let mut first = Vec::new();
        for (nodes, ranks, store) in [(1, 1, "regions"), (2, 2, "regions"), (1, 3, "regions"), (1, 2, "files"), (1, 1, "mapped")]
        {
            let arguments = ["3000", "--store", store, "--dir", place, "--cold"];
            let lines = Stage::of(nodes).pass(program, &arguments, ranks);
            let sums: Vec<_> = lines[0].lines().map(|line| value(line, "sum").to_owned()).collect();
            for (line, (query, rows)) in lines[0].lines().zip(ROWS) {
                assert_eq!((value(line, "variant"), value(line, "rows")), (query, rows), "{line}");
            }
            assert_eq!(sums.len(), ROWS.len());
            if first.is_empty() {
                first = sums;
            } else {
                assert_eq!(first, sums, "{store}, {ranks} ranks");
            }
        }
        assert_eq!(std::fs::read_dir(place).unwrap().count(), 0, "the tables are gone");
        let printed = Stage::of(1).pass(program, &["3000", "--as-printed"], 1);
        assert_eq!(printed[0].lines().map(|line| value(line, "rows")).collect::<Vec<_>>(), ROWS.map(|(_, rows)| rows));
    });
}
