from headway.engine.memory import SlotMemory, common_prefix

PROMPT = list(range(40))


def filled(memory: SlotMemory, prompt: list[int], keep: bool = True) -> int:
    placement = memory.place(prompt, len(prompt) + 10)
    assert placement is not None
    memory.extend(placement.slot, prompt[placement.reused :])
    memory.vacate(placement.slot, keep=keep)
    return placement.slot


def test_a_lane_reserves_prompt_and_output() -> None:
    memory = SlotMemory(4, 100)
    assert memory.place(PROMPT, 60) is not None
    assert (memory.free_slots, memory.free_tokens) == (3, 40)
    assert memory.place(PROMPT, 41) is None
    assert memory.place(PROMPT, 40) is not None


def test_no_slot_no_lane() -> None:
    memory = SlotMemory(1, 1000)
    assert memory.place(PROMPT, 50) is not None
    assert memory.place(PROMPT, 50) is None


def test_an_ended_lane_leaves_its_beginning_to_others() -> None:
    memory = SlotMemory(4, 1000)
    slot = filled(memory, PROMPT)
    placement = memory.place([*PROMPT, 99], 60)
    assert placement is not None
    assert (placement.source, placement.reused) == (slot, 40)
    assert placement.slot != slot


def test_the_last_token_of_a_prompt_is_never_reused() -> None:
    """Its logits are wanted, so it has to be run."""
    memory = SlotMemory(4, 1000)
    filled(memory, PROMPT)
    placement = memory.place(PROMPT, 60)
    assert placement is not None
    assert placement.reused == 39


def test_short_likeness_is_not_worth_a_copy() -> None:
    memory = SlotMemory(4, 1000)
    filled(memory, PROMPT)
    placement = memory.place([*PROMPT[:15], 99, 98], 60)
    assert placement is not None
    assert (placement.source, placement.reused) == (-1, 0)


def test_a_running_lane_shares_its_prompt_too() -> None:
    memory = SlotMemory(4, 1000)
    first = memory.place(PROMPT, 60)
    assert first is not None
    memory.extend(first.slot, PROMPT[:20])
    second = memory.place(PROMPT, 60)
    assert second is not None
    assert (second.source, second.reused) == (first.slot, 20)


def test_what_failed_is_not_kept() -> None:
    memory = SlotMemory(4, 1000)
    filled(memory, PROMPT, keep=False)
    placement = memory.place(PROMPT, 60)
    assert placement is not None
    assert placement.reused == 0


def test_kept_memory_makes_room_oldest_first() -> None:
    memory = SlotMemory(4, 120)
    oldest = filled(memory, PROMPT)
    newer = filled(memory, [*range(100, 140)])
    assert memory.free_tokens == 120
    assert memory.place([*range(200, 220)], 60) is not None
    assert memory.evicted() == [oldest]
    placement = memory.place([*range(100, 140)], 60)
    assert placement is not None
    assert placement.source == newer


def test_the_source_is_the_last_slot_to_be_taken() -> None:
    memory = SlotMemory(1, 1000)
    slot = filled(memory, PROMPT)
    placement = memory.place([*PROMPT, 1], 60)
    assert placement is not None
    assert (placement.slot, placement.source, placement.reused) == (slot, slot, 40)


def test_common_beginnings() -> None:
    assert common_prefix([], [1]) == 0
    assert common_prefix([1, 2, 3], [1, 2, 4]) == 2
    assert common_prefix([1, 2], [1, 2, 3]) == 2
    assert common_prefix(PROMPT, PROMPT) == 40
