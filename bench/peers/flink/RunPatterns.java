import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.functions.TimedOutPartialMatchHandler;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/**
 * Patterns of Flink CEP's API over many small streams, each the events of one key: what they match, event by event.
 *
 * <p>Commands on stdin, one line each: {@code load FILE} takes lines of stream, time and type, and {@code run WINDOW SKIP PART ... | WINDOW SKIP ...}
 * runs some patterns in one job; each is answered by one JSON line, for the latter of the pattern's number, the stream, the match, and whether it is one or a partial one that timed out. A part is {@code CONTIGUITY:NAME:TYPE[:CALL ...]}, as in {@code
 * followedBy:b:B:oneOrMore:greedy}, and a call may have numbers ({@code times,2,4}); SKIP is the name of a strategy, with a part's name
 * where it wants one ({@code skipToFirst,b}).
 */
public final class RunPatterns {
    private static final List<Event> EVENTS = new ArrayList<>();
    private static final List<String> FOUND = Collections.synchronizedList(new ArrayList<>());

    /** An event as Flink likes it: public fields, an empty constructor. */
    public static final class Event {
        public int stream;
        public long ts;
        public String type;

        public Event() {}
    }

    /** Events of one type; of any, where it is a star. */
    private static final class OfType extends SimpleCondition<Event> {
        private final String type;

        OfType(String type) {
            this.type = type;
        }

        @Override
        public boolean filter(Event event) {
            return type.equals("*") || event.type.equals(type);
        }
    }

    /** Notes matches, and what timed out, as "partial": the stream, and the times of each part's events. */
    private static final class Note extends PatternProcessFunction<Event, String> implements TimedOutPartialMatchHandler<Event> {
        private final int number;

        Note(int number) {
            this.number = number;
        }

        @Override
        public void processMatch(Map<String, List<Event>> match, Context context, Collector<String> out) {
            note(match, "match");
        }

        @Override
        public void processTimedOutMatch(Map<String, List<Event>> match, Context context) {
            note(match, "partial");
        }

        private void note(Map<String, List<Event>> match, String kind) {
            StringBuilder text = new StringBuilder();
            for (Map.Entry<String, List<Event>> part : new TreeMap<>(match).entrySet()) {
                List<Long> times = new ArrayList<>();
                for (Event event : part.getValue()) {
                    times.add(event.ts);
                }
                text.append(text.length() == 0 ? "" : ", ").append('"').append(part.getKey()).append("\": ").append(times);
            }
            int stream = match.values().iterator().next().get(0).stream;
            FOUND.add("[" + number + ", " + stream + ", {" + text + "}, \"" + kind + "\"]");
        }
    }

    private static AfterMatchSkipStrategy skip(String word) {
        String[] parts = word.split(",");
        switch (parts[0]) {
            case "noSkip":
                return AfterMatchSkipStrategy.noSkip();
            case "skipToNext":
                return AfterMatchSkipStrategy.skipToNext();
            case "skipPastLastEvent":
                return AfterMatchSkipStrategy.skipPastLastEvent();
            case "skipToFirst":
                return AfterMatchSkipStrategy.skipToFirst(parts[1]);
            case "skipToLast":
                return AfterMatchSkipStrategy.skipToLast(parts[1]);
            default:
                throw new IllegalArgumentException(word);
        }
    }

    private static Pattern<Event, Event> part(Pattern<Event, Event> before, String[] words, AfterMatchSkipStrategy skip) {
        String name = words[1];
        Pattern<Event, Event> pattern;
        switch (words[0]) {
            case "begin":
                pattern = Pattern.begin(name, skip);
                break;
            case "next":
                pattern = before.next(name);
                break;
            case "followedBy":
                pattern = before.followedBy(name);
                break;
            case "followedByAny":
                pattern = before.followedByAny(name);
                break;
            case "notNext":
                pattern = before.notNext(name);
                break;
            case "notFollowedBy":
                pattern = before.notFollowedBy(name);
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
        pattern = pattern.where(new OfType(words[2]));
        for (int at = 3; at < words.length; at++) {
            pattern = call(pattern, words[at].split(","));
        }
        return pattern;
    }

    private static Pattern<Event, Event> call(Pattern<Event, Event> pattern, String[] words) {
        switch (words[0]) {
            case "oneOrMore":
                return pattern.oneOrMore();
            case "times":
                return words.length == 2
                        ? pattern.times(Integer.parseInt(words[1]))
                        : pattern.times(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
            case "timesOrMore":
                return pattern.timesOrMore(Integer.parseInt(words[1]));
            case "optional":
                return pattern.optional();
            case "greedy":
                return pattern.greedy();
            case "consecutive":
                return pattern.consecutive();
            case "allowCombinations":
                return pattern.allowCombinations();
            case "until":
                return pattern.until(new OfType(words[1]));
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static void run(String[] patterns) throws Exception {
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
        DataStream<Event> events =
                environment
                        .fromData(EVENTS)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Event>forMonotonousTimestamps()
                                        .withTimestampAssigner((event, before) -> event.ts));
        for (int number = 0; number < patterns.length; number++) {
            String[] words = patterns[number].trim().split(" ");
            Pattern<Event, Event> pattern = null;
            for (String part : List.of(words).subList(2, words.length)) {
                pattern = part(pattern, part.split(":"), skip(words[1]));
            }
            Duration window = Duration.ofMillis(Long.parseLong(words[0]));
            CEP.pattern(events.keyBy(event -> event.stream), pattern.within(window))
                    .process(new Note(number))
                    .returns(String.class)
                    .print();
        }
        environment.execute();
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.trim().split(" ");
            FOUND.clear();
            if (words[0].equals("load")) {
                EVENTS.clear();
                for (String row : Files.readAllLines(Path.of(words[1]))) {
                    String[] fields = row.split(" ");
                    Event event = new Event();
                    event.stream = Integer.parseInt(fields[0]);
                    event.ts = Long.parseLong(fields[1]);
                    event.type = fields[2];
                    EVENTS.add(event);
                }
            } else {
                run(line.trim().substring("run ".length()).split("\\|"));
            }
            System.out.println("[" + String.join(", ", FOUND) + "]");
        }
    }
}
