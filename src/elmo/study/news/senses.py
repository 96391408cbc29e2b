"""The ambiguous words of the generated news, and what each of them can mean."""

from __future__ import annotations

SENSES: dict[str, dict[str, str]] = {
    "bank": {"money": "where money is kept and lent", "river": "the land along a river"},
    "pitch": {
        "field": "where football or cricket is played",
        "proposal": "a talk that is to win somebody over",
        "throw": "a ball thrown to a batter",
    },
    "court": {"law": "where judges decide", "tennis": "where tennis is played"},
    # The fruit stands at the beginning of sentences only, so that its capital gives nothing away.
    "Apple": {"company": "a maker of computers", "fruit": "what grows on trees"},
    "run": {
        "operate": "to lead an enterprise, or to execute a program",
        "score": "a point in baseball or cricket",
        "series": "several things of a kind, one after the other",
    },
    "match": {"game": "two sides against each other", "likeness": "to be equal to, or to suit"},
    "draft": {"selection": "in which teams choose players", "text": "a text before it is final"},
    "strike": {"labour": "a refusal to work", "throw": "a ball that a batter should have hit"},
    "cell": {
        "battery": "a source of electric power",
        "biology": "the smallest part of a living thing",
        "prison": "a prisoner's room",
    },
    "virus": {"disease": "what makes people ill", "software": "what makes computers ill"},
    "chip": {"golf": "a short stroke onto the green", "silicon": "an electronic circuit"},
    "bat": {"animal": "what flies by night", "sport": "what a ball is hit with"},
    "goal": {"aim": "what somebody wants to reach", "sport": "a point in football, or its frame"},
    "crane": {"bird": "a bird with long legs", "machine": "what lifts loads"},
    "mouse": {"animal": "a small rodent", "device": "what moves a pointer on a screen"},
    "plant": {"factory": "where goods or power are made", "vegetation": "what grows in soil"},
    "star": {"celebrity": "somebody famous", "celestial": "a sun far away"},
    "bond": {"debt": "a loan that can be traded", "tie": "what holds people or atoms together"},
    "interest": {"attention": "wanting to know or to have", "money": "the price of a loan"},
    "spring": {
        "coil": "a wire that gives way and returns",
        "season": "the months after winter",
        "water": "where water rises from the ground",
    },
    "note": {"message": "a short piece of writing", "music": "a single tone"},
    "race": {"election": "a contest for votes", "speed": "a contest of who is fastest"},
    "seat": {"chair": "a place to sit", "office": "a place in a parliament, council or board"},
    "wave": {
        "signal": "what radio is carried by",
        "surge": "much of something at a time",
        "water": "what breaks on a shore",
    },
    "trial": {"law": "a case before judges", "test": "an experiment"},
    "port": {"harbour": "where ships land", "socket": "where a cable goes"},
    "drive": {
        "campaign": "an effort of many people",
        "golf": "a long first stroke",
        "storage": "what a computer keeps its files on",
    },
    "charge": {
        "accusation": "what somebody is said to have done",
        "electricity": "what a battery holds",
        "fee": "what a service costs",
    },
    "coach": {"bus": "a bus for long journeys", "trainer": "who trains a team"},
    "suit": {"clothes": "what is worn", "lawsuit": "a case that one party brings"},
    "ring": {"boxing": "where boxers fight", "jewellery": "what a finger wears"},
    "table": {"furniture": "what people sit around", "ranking": "who is ahead of whom"},
}
