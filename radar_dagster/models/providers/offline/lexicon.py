"""The word lists of the offline models, all written for this project: synonyms, antonyms, connectives, stock sentences.

Here: data and the inflection that turns a list of base forms into forms found in text. Editor and reader share it, so
the reader recognises a synonym as the same term. Not here: rules that use the lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache

from radar_dagster.models.providers.offline.dictionary import stem
from radar_dagster.models.providers.offline.segments import vocabulary

STOPWORDS = vocabulary(
    """
    a about above after again against all almost also although always am an and any are as at away back be because been
    before being below between both but by can cannot could did do does doing done down during each either else enough
    even ever every few for from further get gets getting give given gives go goes going got had has have having he
    hence her here hers herself him himself his how however i if in indeed instead into is it its itself just later
    less let like made make makes making many may me might mine more moreover most much must my myself near nearly
    neither never no nor not now of off often on once one only onto or other others otherwise ought our ours ourselves
    out over own per perhaps put quite rather really said same say says shall she should since so some something
    sometimes soon still such take taken takes than that the their theirs them themselves then there therefore these
    they thing things this those though through thus to together too took toward towards under until unto up upon us
    use used uses using very via was way we well went were what whatever when where whereas whether which while who
    whole whom whose why will with within without would yet you your yours yourself don't doesn't didn't isn't aren't
    wasn't weren't can't couldn't won't wouldn't hasn't haven't it's that's there's we'll you'll i'll i'm we're you're
    """
)

#: simple base form -> rarer base form. Inflected by `_verb_forms`, `_noun_forms`; adjectives and adverbs stay as given.
_VERBS = """
use utilize; help facilitate; show demonstrate; start commence; begin initiate; end terminate; stop discontinue;
need necessitate; get obtain; buy procure; ask solicit; tell apprise; think postulate; try endeavour; keep retain;
give furnish; grow burgeon; change modify; fix rectify; mend remediate; lose forfeit; send transmit; pay remunerate;
say articulate; find ascertain; make fabricate; build construct; cut curtail; raise elevate; lower attenuate;
fall diminish; happen transpire; open inaugurate; live reside; die perish; argue contend; call denominate;
warn admonish; promise pledge; win prevail; beat vanquish; lead precede; leave relinquish; hold encompass;
stay persist; suggest intimate; protect safeguard; reach attain; follow pursue; measure quantify; compare juxtapose;
remove excise; harm impair; mark designate; store accumulate; break fracture; test scrutinize; borrow appropriate;
lend bestow; sell vend; walk perambulate; watch observe; hear apprehend; sleep slumber; climb ascend; wipe cleanse;
turn rotate; write inscribe; rest repose; sort systematize; ignore disregard; last endure; move transition;
handle administer; record document; answer rejoin; post dispatch; print reproduce; attach append; refund reimburse;
look peruse; teach instruct; harvest garner; refuse repudiate; design devise; accept countenance; spend expend;
occur materialize; compensate recompense; confirm corroborate; prevent preclude; appear manifest; hesitate vacillate;
affect impinge; differ diverge; raise augment; add supplement; explain elucidate; improve ameliorate; join amalgamate;
allow sanction; choose elect; check verify; share apportion; announce promulgate; swallow engulf; blow exhale
"""
_NOUNS = """
home domicile; house residence; job occupation; help assistance; worker operative; change alteration; rule regulation;
law statute; fight altercation; part component; use utilization; end termination; start inception;
problem complication; fault deficiency; illness malady; doctor physician; drug pharmaceutical; town municipality;
trip excursion; road thoroughfare; tool implement; farmer agriculturalist; game contest; win triumph;
chance probability; answer rejoinder; idea notion; plan stratagem; price valuation; loss deficit; share proportion;
sale transaction; shop emporium; repair restoration; room chamber; loan advance; goal objective;
message communication; letter correspondence; limit threshold; result outcome; test assessment; age seniority;
rest remainder; gap interstice; step increment; list enumeration; speed velocity; light luminescence;
machine apparatus; sea ocean; shore littoral; fog brume; lamp luminary; bay inlet; ship vessel; boat vessel;
word locution; friend companion; reason rationale; growth proliferation; link correlation; level magnitude;
team contingent; debt liability; death demise; pump apparatus; rain precipitation; drought aridity; wound laceration;
pain discomfort; scan tomogram; operation procedure; nosebleed epistaxis; choice alternative
"""
_OTHERS = """
about approximately; big substantial; large considerable; small diminutive; many numerous; more additional;
enough sufficient; often frequently; now presently; soon imminently; because inasmuch-as; but nevertheless;
so consequently; also additionally; then subsequently; before antecedently; after subsequent-to;
although notwithstanding-that; therefore accordingly; however nonetheless; last ultimate; next ensuing; whole entire;
main principal; important consequential; common prevalent; rare infrequent; hard arduous; easy effortless;
quick expeditious; slow protracted; fast rapid; good advantageous; bad deleterious; new novel; old antiquated;
strong robust; weak feeble; clear perspicuous; true veracious; wrong erroneous; right correct; full replete;
empty vacant; free gratuitous; cheap inexpensive; poor impecunious; rich affluent; sick indisposed; mild attenuated;
severe pronounced; young juvenile; early premature; late belated; quiet tranquil; happy jubilant; sad melancholy;
enough ample; mainly predominantly; usually customarily; almost virtually; nearly approximately; together conjointly;
slowly gradually; quickly expeditiously; due attributable; sorry regretful; high elevated; low depressed;
heavy ponderous; long protracted; great immense; unclear indeterminate; likely probable; tiny infinitesimal;
away distant; near proximate; far remote; ordinary quotidian; same identical; different disparate; local regional;
living animate; healthy salubrious; older senescent
"""

#: base past participle
_IRREGULAR = """
begin began begun; get got got; buy bought bought; tell told told; think thought thought; keep kept kept;
give gave given; grow grew grown; lose lost lost; send sent sent; pay paid paid; say said said; find found found;
make made made; build built built; cut cut cut; fall fell fallen; rise rose risen; win won won; beat beat beaten;
lead led led; leave left left; hold held held; break broke broken; lend lent lent; sell sold sold; hear heard heard;
sleep slept slept; write wrote written; teach taught taught; spend spent spent; show showed shown;
choose chose chosen; blow blew blown
"""

#: Phrases and what can stand in their place in nearly every context; applied in this direction only.
NEUTRAL_SWAPS = (
    ("because", "since"), ("but", "yet"), ("however", "still"), ("therefore", "thus"),
    ("although", "though"), ("begin", "start"), ("begins", "starts"), ("for example", "for instance"),
    ("such as", "like"), ("in addition", "besides"), ("nearly", "almost"), ("almost", "nearly"), ("more than", "over"),
    ("at least", "no less than"), ("do not", "don't"), ("does not", "doesn't"), ("did not", "didn't"),
    ("cannot", "can't"), ("it is", "it's"), ("is not", "isn't"), ("i will", "i'll"), ("i am", "i'm"),
    ("large", "big"), ("often", "frequently"), ("helps", "assists"), ("shows", "reveals"), ("showed", "revealed"),
    ("while", "whereas"), ("whereas", "while"), ("finally", "lastly"), ("next", "after that"), ("said", "stated"),
    ("happened", "took place"), ("the whole", "the entire"), ("only", "just"), ("otherwise", "or else"),
    ("per cent", "percent"), ("until", "till"), ("instead of", "rather than"), ("once more", "once again"),
    ("called", "named"), ("upon", "on"), ("according to", "as reported by"), ("suggests", "indicates"),
    ("announced", "declared"), ("argued", "maintained"), ("moreover", "besides"), ("furthermore", "moreover"),
    ("thus", "therefore"), ("in total", "altogether"), ("in order to", "to"), ("the reason why", "the reason"),
    ("a lot of", "plenty of"), ("needs to", "has to"), ("in particular", "particularly"),
    ("so far", "until now"), ("a few", "some"), ("at once", "immediately"), ("currently", "at present"),
)  # fmt: skip

#: Pairs whose exchange turns a statement into its contrary.
_ANTONYMS = """
more fewer; higher lower; high low; rose fell; rise fall; rises falls; increase decrease; increased decreased;
raised lowered; increases decreases; before after; first last; above below; over under; early late; earlier later;
gained lost; win lose; won lost; open closed; opened closed; close open; keep abandon; kept abandoned; best worst;
better worse; larger smaller; longer shorter; stronger weaker; benefit harm; improved worsened; cheap expensive;
free paid; all none; always never; accepted refused; accept refuse; allow forbid; agree refuse; start finish;
started finished; begins ends; began ended; profit loss; up down; older younger; old young; slowly quickly; slow fast;
day night; morning evening; dawn dusk; least most; maximum minimum; inside outside; present absent; mild severe;
common rare; large tiny; quiet noisy; restored destroyed; recovered declined; support oppose; supported opposed;
possible impossible; able unable; clear unclear; likely unlikely; safe dangerous; healthy sick; living dead;
public private; cut extended; shut opened; climbed descended; west east; north south; still restless; near distant;
grateful bitter; sorry glad; whole partial
"""

#: Words that tie a sentence or clause to what stands around it.
CONNECTIVES = vocabulary(
    "because since although though therefore thus hence consequently accordingly whereas while so but yet as however "
    "moreover furthermore then next finally first second third also besides instead otherwise still"
)
#: An opening with one of these points back at something already said.
BACK_REFERENCES = vocabulary(
    "however therefore thus hence consequently moreover furthermore then otherwise instead he she it they this that "
    "these those such his her its their another"
)

#: Added to a text that has little to vary.
OPENERS = (
    "Here is my answer.", "Here you go.", "Of course.", "Certainly.", "Sure, here it is.", "Gladly.",
    "With pleasure.", "Here is what you asked for.",
)  # fmt: skip
CLOSERS = (
    "I hope this helps.", "Please ask if anything is unclear.", "Let me know if you would like changes.",
    "Feel free to write again.", "That should be all.", "I am happy to say more.", "Do write if a question is left.",
    "That is all for now.",
)  # fmt: skip

#: Sentences that answer nothing and state no fact.
VAGUE = (
    "There are several sides to this, and each of them deserves some thought.",
    "A good deal could be said here, and opinions will naturally vary.",
    "It is the kind of question that comes up from time to time.",
    "Various things happened, and some of them turned out to be quite interesting.",
    "In the end it depends on many circumstances, as such things usually do.",
    "One would have to look at it more closely before saying anything definite.",
    "Different people see these matters in different ways.",
    "On the whole the situation is neither simple nor unusual.",
    "Certain details play a role as well, although they need not concern us here.",
    "Something of this sort can be approached from more than one angle.",
    "That said, every case has its own background and its own story.",
    "It may be worth waiting to see how things develop.",
    "Some aspects are better understood than others.",
    "Everyone involved surely did what seemed sensible at the time.",
    "As so often, the general picture matters more than any single point.",
    "There is probably an explanation for most of it.",
)

#: Asides that belong to no task.
TANGENTS = (
    "Incidentally, the weather has been rather changeable for the season.",
    "Many people enjoy a cup of tea while they think about such matters.",
    "The history of paper, by the way, goes back almost two thousand years.",
    "A cousin of mine once collected stamps with pictures of bridges.",
    "Gardeners often remark that tomatoes need more sun than beans.",
    "It is said that cats sleep for most of the afternoon.",
    "Old railway stations can be surprisingly beautiful buildings.",
    "Some prefer the mountains, others the beach, for their holidays.",
    "Baking bread at home has become a popular hobby again.",
    "The colour blue is a favourite in a great number of surveys.",
    "Chess, of course, is played with sixteen pieces on each side.",
    "A new café around the corner has started to serve soup at lunch.",
)

#: `{a}` and `{b}` are filled with terms of the text itself.
PADDING = (
    "To put this a little differently, it is worth dwelling for a moment on the {a} and on the {b} as well.",
    "It should also be mentioned, for the sake of completeness, that the {a} plays a part of its own in all of this.",
    "In this connection one may want to bear in mind everything that has been said about the {a} up to this point.",
    "Needless to say, both the {a} and the {b} could be described at much greater length, and in many other ways too.",
    "Of course, as anyone who has looked into the {a} will readily agree, there is always something more to add to it.",
    "All in all, and taking everything into account, the {a} clearly remains one of the points that ought to be noted.",
    "Before going on, it may be useful to pause and to recall once more how the {a} is connected with the {b}.",
    "By way of illustration, one only needs to think of the {a}, which after all comes up again and again here.",
    "It goes without saying that these remarks on the {a} are meant in the most general sense and quite unhurriedly.",
    "Furthermore, it is probably fair to say that the {b} has a good deal to do with the {a}, and the other way round.",
    "As has already been indicated above, and as will become clearer still, the {a} deserves a few additional words.",
    "For the avoidance of doubt, this applies to the {a} in just the same manner as it does to the {b}.",
    "In other words, and at the risk of labouring the point, the {a} is something to be kept firmly in view.",
    "At the same time it would surely be a pity to leave the {b} here with so few words said about it at this stage.",
)

#: Short sentences of the commonest words.
PLAIN = (
    "That is how it is.", "It is good to know this.", "You can see why.", "It is as easy as that.",
    "This is a big thing.", "Now you know.", "Think of it this way.", "That was a lot.", "It is not hard to get.",
    "So that is what we have here.", "All of this is true.", "Just look at it.", "It did go like that.",
    "And that is good.", "Here is what comes next.",
)  # fmt: skip

#: What can stand before the first and the last sentence of a summary.
FIRST_WORDS = (
    "In short,",
    "In brief,",
    "In sum,",
    "To sum up,",
    "Put briefly,",
    "In a nutshell,",
    "In outline,",
    "Overall,",
)
LAST_WORDS = ("Moreover,", "In addition,", "Besides,", "What is more,", "Further,", "Beyond that,", "Also,", "Lastly,")

MONTHS_AND_DAYS = vocabulary(
    "january february march april may june july august september october november december monday tuesday wednesday "
    "thursday friday saturday sunday"
)

#: Openings that make a sentence longer and its vocabulary rarer.
ORNATE = (
    "Notwithstanding certain ancillary considerations,", "Pursuant to the aforementioned contingencies,",
    "From an epistemologically circumspect vantage point,", "In conformity with prevailing terminological conventions,",
    "Predicated upon the foregoing exposition,", "Irrespective of idiosyncratic particularities,",
    "As an incontrovertible corollary thereof,", "Insofar as methodological exigencies permit,",
    "Concomitantly with the aforesaid developments,", "Subject to commensurate qualification,",
    "Within the overarching conceptual framework,", "Construed in its broadest ramifications,",
)  # fmt: skip

#: A line for phrases of a criterion's definition, for criteria that no rule knows. `{x}` is a list of phrases; they may
#: be of any part of speech, so they stand in no sentence.
COVERING = (
    "Key words: {x}", "In key words: {x}", "Filed under: {x}", "Listed under: {x}", "Headings: {x}", "Labels: {x}",
)  # fmt: skip

#: Invented or rare surnames and place names, put in the place of others.
NAMES = (
    "Marlow", "Kestrel", "Ostrava", "Tamsin", "Birkett", "Halloway", "Ferrant", "Quillon", "Ravenna", "Sorley",
    "Thackeray", "Ulverston", "Vesper", "Wexcombe", "Yardley", "Zelinka", "Alderton", "Brannock", "Corvin",
    "Delacroix", "Eskdale", "Farrow", "Gorringe", "Hesketh", "Inglewood", "Jessamy", "Kendrick", "Lorimer",
    "Merrivale", "Norwood",
)  # fmt: skip

#: Words of rubrics that say nothing about what a response should hold.
RUBRIC_WORDS = frozenset(
    map(
        stem,
        vocabulary(
            """
    response responses answer answers reply replies text texts summary summaries article abstract source reader judge
    score scores scored scoring rating rate criterion criteria rubric low lower lowers high higher level levels end ends
    quality degree extent measure measured whether well poor poorly good better best bad clearly strongly fully
    sentence sentences assess assesses evaluate evaluates evaluation refer refers mean means include includes including
    contain contains mention mentions mentioned state states stated provide provides describe describes point points
    part parts task prompt question user person people writer need needs must important importance overall
    example examples case general kind make clear stand show shows every anything nothing one two three none scale
    appropriate appropriately explicit explicitly avoid avoids cite cites refrain
    """
        ),
    )
)


def stock_sentences() -> tuple[str, ...]:
    """All sentences and openings that the editor adds."""
    return OPENERS + CLOSERS + VAGUE + TANGENTS + PADDING + PLAIN + FIRST_WORDS + LAST_WORDS + ORNATE


@lru_cache(maxsize=1)
def rarer_forms() -> Mapping[str, str]:
    """Every simple form with a rarer one of the same inflection, e.g. `showed` -> `demonstrated`."""
    return {simple: rare for simple, rare in _pairs_of_forms() if simple not in _AMBIGUOUS}


@lru_cache(maxsize=1)
def verb_forms() -> frozenset[str]:
    """Simple verb forms that look like nouns ("walk", "walks"); after an article they are nouns, so no swap fits."""
    bases = [entry.split()[0] for entry in _entries(_VERBS)]
    return frozenset(form for base in bases for form in (base, _with_s(base)))


@lru_cache(maxsize=1)
def simpler_forms() -> Mapping[str, str]:
    """Every rarer form with a simple one of the same inflection."""
    return {rare: simple for simple, rare in reversed(list(_pairs_of_forms()))}


@lru_cache(maxsize=1)
def antonyms() -> Mapping[str, str]:
    """Words with a contrary, in both directions; where a word has several, the first of the list."""
    pairs = [(first, second) for first, second in map(str.split, _entries(_ANTONYMS))]
    backward = {second: first for first, second in reversed(pairs)}
    return backward | dict(reversed(pairs))


@lru_cache(maxsize=50_000)
def term(word: str) -> str:
    """The stem of a word, or that of its simple synonym, so that a rarer word counts as the same term."""
    lowered = word.lower()
    return stem(simpler_forms().get(lowered, lowered))


#: Forms that are mostly another word than the one listed ("left" the direction, "like" the preposition).
_AMBIGUOUS = vocabulary(
    "makes made make left last lasts works call calls hold holds held found find finds beat beats led lead leads turn "
    "turns hand hands cut cuts rest open opens close closes closed so but more then about mean work gave give gives "
    "before away opening closing starting ending building said say says look looks looked getting get gets got book "
    "books stay stays rise rises add adds long end ends"
)


def _entries(table: str) -> Iterator[str]:
    return (entry.strip() for entry in re.split(r"[;\n]", table) if entry.strip())


def _pairs_of_forms() -> Iterator[tuple[str, str]]:
    for table, inflect in ((_OTHERS, _unchanged), (_NOUNS, _noun_forms), (_VERBS, _verb_forms)):
        for entry in _entries(table):
            simple, rare = entry.split()
            yield from zip(inflect(simple), inflect(rare.replace("-", " ")), strict=True)


def _unchanged(word: str) -> tuple[str, ...]:
    return (word,)


def _noun_forms(noun: str) -> tuple[str, ...]:
    return (noun, _with_s(noun))


@lru_cache(maxsize=1)
def _irregular() -> Mapping[str, tuple[str, str]]:
    forms = (entry.split() for entry in _entries(_IRREGULAR))
    return {base: (past, participle) for base, past, participle in forms}


def _verb_forms(verb: str) -> tuple[str, ...]:
    regular = _with_ending(verb, "ed")
    past, participle = _irregular().get(verb, (regular, regular))
    return verb, _with_s(verb), past, participle, _with_ending(verb, "ing")


def _with_s(word: str) -> str:
    if re.search("[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "z", "ch", "sh")) else "s")


#: Verbs that double their last consonant.
_DOUBLING = vocabulary("get cut stop win begin transmit admit put fit plan permit occur refer")


def _with_ending(verb: str, ending: str) -> str:
    if ending == "ed" and re.search("[^aeiou]y$", verb):
        return verb[:-1] + "ied"
    if verb in _DOUBLING:
        return verb + verb[-1] + ending
    if verb == "die":
        return "died" if ending == "ed" else "dying"
    return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb) + ending
