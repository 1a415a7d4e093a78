//! Published test vectors: the generators and the hash are the ones they claim to be.
use headway_core::hash::{hash_key, split_point};
use headway_core::rng::{Rng, SplitMix64};

#[test]
fn splitmix64_matches_the_reference() {
    let mut generator = SplitMix64::new(1_234_567);
    let drawn: Vec<u64> = (0..5).map(|_| generator.next_u64()).collect();
    let expected = [
        6_457_827_717_110_365_317,
        3_203_168_211_198_807_973,
        9_817_491_932_198_370_423,
        4_593_380_528_125_082_431,
        16_408_922_859_458_223_821,
    ];
    assert_eq!(drawn, expected);
}

#[test]
fn xoshiro256plusplus_matches_the_reference() {
    let mut rng = Rng::from_state([1, 2, 3, 4]);
    let drawn: Vec<u64> = (0..10).map(|_| rng.next_u64()).collect();
    let expected = [
        41_943_041,
        58_720_359,
        3_588_806_011_781_223,
        3_591_011_842_654_386,
        9_228_616_714_210_784_205,
        9_973_669_472_204_895_162,
        14_011_001_112_246_962_877,
        12_406_186_145_184_390_807,
        15_849_039_046_786_891_736,
        10_450_023_813_501_588_000,
    ];
    assert_eq!(drawn, expected);
}

#[test]
fn uniform_stays_below_one_and_fills_the_interval() {
    let mut rng = Rng::new(7);
    let drawn: Vec<f64> = (0..10_000).map(|_| rng.uniform()).collect();
    let mean = drawn.iter().sum::<f64>() / 10_000.0;
    assert!(drawn.iter().all(|u| (0.0..1.0).contains(u)));
    // Standard error 0.0029; four of them.
    assert!((mean - 0.5).abs() < 0.012, "mean {mean}");
}

#[test]
fn below_is_uniform_where_a_modulus_would_not_be() {
    // With a plain modulus, the lower half of this bound would come twice as often.
    let bound = (1u64 << 63) + (1 << 62);
    let mut rng = Rng::new(11);
    let low = (0..10_000).filter(|_| rng.below(bound) < bound / 2).count();
    assert!((4_800..=5_200).contains(&low), "{low} of 10000 in the lower half");
    assert!((0..1_000).all(|_| rng.below(3) < 3));
    assert_eq!(rng.below(1), 0);
    assert_eq!(rng.below(0), 0);
}

/// The input of the reference implementation's own sanity check.
fn sanity_buffer(len: usize) -> Vec<u8> {
    let mut generator = 2_654_435_761u64;
    let mut buffer = Vec::with_capacity(len);
    for _ in 0..len {
        buffer.push(generator.to_be_bytes()[0]);
        generator = generator.wrapping_mul(11_400_714_785_074_694_797);
    }
    buffer
}

#[test]
fn xxh3_matches_the_reference() {
    const PRIME64: u64 = 0x9e37_79b1_85eb_ca8d;
    let table: [(usize, u64, u64); 9] = [
        (0, 0, 0x2d06_8005_38d3_94c2),
        (1, 0, 0xc44b_dff4_074e_ecdb),
        (1, PRIME64, 0x032b_e332_dd76_6ef8),
        (6, 0, 0x27b5_6a84_cd2d_7325),
        (6, PRIME64, 0x8458_9c11_6ab5_9ab9),
        (12, 0, 0xa713_daf0_dfbb_77e7),
        (12, PRIME64, 0xe730_3e1b_2336_de0e),
        (24, 0, 0xa3fe_70bf_9d35_10eb),
        (24, PRIME64, 0x850e_80fc_35bd_d690),
    ];
    for (len, seed, expected) in table {
        assert_eq!(hash_key(&sanity_buffer(len), seed), expected, "length {len}, seed {seed:x}");
    }
}

#[test]
fn split_points_are_uniform_and_independent_between_salts() {
    let points =
        |salt| (0..20_000u64).map(move |key| split_point(hash_key(&key.to_le_bytes(), 0), salt));
    let in_first_tenth = points(1).filter(|&point| point < 0.1).count();
    let in_both = points(1).zip(points(2)).filter(|&(one, two)| one < 0.1 && two < 0.1).count();
    // Binomial: 2000 +- 42 and 200 +- 14; four standard deviations.
    assert!((1_830..=2_170).contains(&in_first_tenth), "{in_first_tenth}");
    assert!((144..=256).contains(&in_both), "{in_both}");
}
