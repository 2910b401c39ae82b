package fader;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.io.BytesWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.Job;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.Mapper;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.Reducer;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.CombineFileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.CombineFileRecordReader;
import org.apache.hadoop.mapreduce.lib.input.CombineFileSplit;
import org.apache.hadoop.mapreduce.lib.input.FileInputFormat;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/**
 * The built-in programs of {@code fader mapreduce} that index files, for Hadoop: {@code Indexing
 * inverted-index|reverse-links unpacked|packed [-D SETTING]... INPUT OUTPUT}. A map task of unpacked
 * input reads one file, of packed input many. Lines are Fader's; partitions are Hadoop's.
 */
public final class Indexing extends Configured implements Tool {
  private final boolean isLinks;
  private final boolean isPacked;

  private Indexing(String program, String packing) {
    isLinks = program.equals("reverse-links");
    isPacked = packing.equals("packed");
  }

  public static void main(String[] arguments) throws Exception {
    String[] rest = Arrays.copyOfRange(arguments, 2, arguments.length);
    System.exit(ToolRunner.run(new Indexing(arguments[0], arguments[1]), rest));
  }

  @Override
  public int run(String[] places) throws Exception {
    Job job = Job.getInstance(getConf());
    job.setInputFormatClass(isPacked ? Packed.class : Unpacked.class);
    job.setMapperClass(isLinks ? Links.class : Words.class);
    job.setReducerClass(ListOfNames.class);
    job.setOutputKeyClass(Text.class);
    job.setOutputValueClass(Text.class);
    FileInputFormat.setInputDirRecursive(job, true);
    FileInputFormat.setInputPaths(job, new Path(places[0]));
    FileOutputFormat.setOutputPath(job, new Path(places[1]));
    return job.waitForCompletion(false) ? 0 : 1;
  }

  /** A file in a split. */
  public static final class Unpacked extends FileInputFormat<Text, BytesWritable> {
    @Override
    protected boolean isSplitable(JobContext context, Path path) {
      return false;
    }

    @Override
    public RecordReader<Text, BytesWritable> createRecordReader(
        InputSplit split, TaskAttemptContext context) {
      FileSplit file = (FileSplit) split;
      return new WholeFile(file.getPath(), file.getLength(), context);
    }
  }

  /** Many files in a split. */
  public static final class Packed extends CombineFileInputFormat<Text, BytesWritable> {
    @Override
    protected boolean isSplitable(JobContext context, Path path) {
      return false;
    }

    @Override
    public RecordReader<Text, BytesWritable> createRecordReader(
        InputSplit split, TaskAttemptContext context) throws IOException {
      return new CombineFileRecordReader<>((CombineFileSplit) split, context, WholeFile.class);
    }
  }

  /** One record: the file's name below the input, and its bytes. */
  public static final class WholeFile extends RecordReader<Text, BytesWritable> {
    private final Path path;
    private final long length;
    private final TaskAttemptContext context;
    private BytesWritable bytes;

    WholeFile(Path path, long length, TaskAttemptContext context) {
      this.path = path;
      this.length = length;
      this.context = context;
    }

    /** What {@code CombineFileRecordReader} calls. */
    public WholeFile(CombineFileSplit split, TaskAttemptContext context, Integer number) {
      this(split.getPath(number), split.getLength(number), context);
    }

    @Override
    public void initialize(InputSplit split, TaskAttemptContext context) {
    }

    @Override
    public boolean nextKeyValue() throws IOException {
      if (bytes != null) {
        return false;
      }
      byte[] read = new byte[Math.toIntExact(length)];
      try (FSDataInputStream file =
          path.getFileSystem(context.getConfiguration()).open(path)) {
        file.readFully(read);
      }
      bytes = new BytesWritable(read);
      return true;
    }

    @Override
    public Text getCurrentKey() {
      Path input = FileInputFormat.getInputPaths(context)[0];
      return new Text(input.toUri().relativize(path.toUri()).getPath());
    }

    @Override
    public BytesWritable getCurrentValue() {
      return bytes;
    }

    @Override
    public float getProgress() {
      return bytes == null ? 0 : 1;
    }

    @Override
    public void close() {
    }
  }

  /** Gives each key of a file once. */
  private abstract static class KeysOfFile extends Mapper<Text, BytesWritable, Text, Text> {
    abstract Set<Text> keys(Text name, byte[] bytes);

    @Override
    protected void map(Text name, BytesWritable bytes, Context context)
        throws IOException, InterruptedException {
      for (Text key : keys(name, bytes.getBytes())) {
        context.write(key, name);
      }
    }
  }

  /** The words of a file. */
  public static final class Words extends KeysOfFile {
    @Override
    Set<Text> keys(Text name, byte[] bytes) {
      Set<Text> words = new HashSet<>();
      int begin = 0;
      for (int at = 0; at <= bytes.length; at++) {
        if (at == bytes.length || isSpace(bytes[at])) {
          if (begin < at) {
            Text word = new Text();
            word.set(bytes, begin, at - begin);
            words.add(word);
          }
          begin = at + 1;
        }
      }
      return words;
    }

    private static boolean isSpace(byte value) {
      return value == ' ' || '\t' <= value && value <= '\r';
    }
  }

  /** What a file links to, in lines. A character stands for a byte. */
  public static final class Links extends KeysOfFile {
    private static final String SPACE = "[ \\t\\f\\r]*";
    private static final Pattern LINK =
        Pattern.compile("(?i)href" + SPACE + "=" + SPACE + "([\"'])([^\\n]*?)(\\1|\\n|\\z)");
    private static final Pattern TRIMMED = Pattern.compile("(?s)" + SPACE + "(.*?)" + SPACE);
    private static final Pattern CONTROL = Pattern.compile("[\\t\\r]");
    private static final Pattern SCHEME = Pattern.compile("[^:/?]*:|//");

    @Override
    Set<Text> keys(Text name, byte[] bytes) {
      Set<Text> targets = new HashSet<>();
      String source = new String(name.copyBytes(), StandardCharsets.ISO_8859_1);
      Matcher links = LINK.matcher(new String(bytes, StandardCharsets.ISO_8859_1));
      while (links.find()) {
        boolean isClosed = links.group(3).equals(links.group(1));
        String target = isClosed ? target(source, links.group(2)) : null;
        if (target != null) {
          Text key = new Text();
          key.set(target.getBytes(StandardCharsets.ISO_8859_1));
          targets.add(key);
        }
      }
      return targets;
    }

    /** From the root of the input, unless the link has a scheme; null for a place in the file. */
    private static String target(String source, String whole) {
      Matcher trimmed = TRIMMED.matcher(whole.split("#", 2)[0]);
      String link = trimmed.matches() ? trimmed.group(1) : "";
      if (link.isEmpty() || CONTROL.matcher(link).find()) {
        return null;
      }
      if (SCHEME.matcher(link).lookingAt()) {
        return link;
      }
      String folder = source.substring(0, source.lastIndexOf('/') + 1);
      Deque<String> parts = new ArrayDeque<>();
      for (String part : (link.startsWith("/") ? link : folder + link).split("/")) {
        if (part.equals("..")) {
          parts.pollLast();
        } else if (!part.isEmpty() && !part.equals(".")) {
          parts.addLast(part);
        }
      }
      return String.join("/", parts);
    }
  }

  /** A key, and the names of its files in the order of their bytes. */
  public static final class ListOfNames extends Reducer<Text, Text, Text, Text> {
    @Override
    protected void reduce(Text key, Iterable<Text> values, Context context)
        throws IOException, InterruptedException {
      List<Text> names = new ArrayList<>();
      values.forEach(name -> names.add(new Text(name)));
      Collections.sort(names);
      Text list = new Text(names.get(0));
      for (Text name : names.subList(1, names.size())) {
        list.append(new byte[] {'\t'}, 0, 1);
        list.append(name.getBytes(), 0, name.getLength());
      }
      context.write(key, list);
    }
  }
}
