package harness.storm.submit;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.storm.utils.VersionInfo;

/** What a jar lacks, in words: a class that it needs, or the version of Storm that it was made for. */
final class MissingClass {
    private static final Pattern NAME = Pattern.compile("^[\\w$]+([/.][\\w$]+)*$");
    private static final Pattern BEFORE_1_0 = Pattern.compile("^(backtype\\.storm|storm\\.(trident|kafka|starter))\\..*");
    private static final String STORMS = "org.apache.storm.";

    private MissingClass() {
    }

    /** Says what is missing, if that is what an exception is about; else null. */
    static String explain(Throwable thrown) {
        for (Throwable e = thrown; e != null; e = e.getCause()) {
            String message = e.getMessage() == null ? "" : e.getMessage();
            if (e instanceof UnsupportedClassVersionError) {
                return message + ": the jar is made for a newer Java than " + Runtime.version().feature();
            }
            if (e instanceof ClassNotFoundException || e instanceof NoClassDefFoundError) {
                Matcher name = NAME.matcher(message);
                if (name.matches() && !(e.getCause() instanceof ClassNotFoundException)) {
                    return absent(message.replace('/', '.'));
                }
            } else if (e instanceof IncompatibleClassChangeError && message.replace('/', '.').contains(STORMS)) {
                return e + ": " + another(); // no such method or field, or an abstract one
            }
        }
        return null;
    }

    private static String absent(String name) {
        String what = "the class " + name + " is neither in the jar nor in Storm " + VersionInfo.getVersion();
        if (BEFORE_1_0.matcher(name).matches()) {
            return what + ": the jar is made for a Storm before 1.0";
        }
        return name.startsWith(STORMS) ? what + ": " + another() : what;
    }

    private static String another() {
        return "the jar is made for another Storm than " + VersionInfo.getVersion();
    }
}
