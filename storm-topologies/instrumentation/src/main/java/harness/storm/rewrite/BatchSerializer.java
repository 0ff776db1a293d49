package harness.storm.rewrite;

import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.Registration;
import com.esotericsoftware.kryo.Serializer;
import com.esotericsoftware.kryo.io.Input;
import com.esotericsoftware.kryo.io.Output;
import java.util.ArrayList;
import java.util.List;

/**
 * Writes batches by column, as the values of one field are mostly of one class, which is then written once.
 *
 * <p>Values are written by the topology's own Kryo and registrations: what it refuses of a tuple it refuses of a batch. Lists
 * of values arrive as {@code ArrayList}s, as Storm's do.
 */
public final class BatchSerializer extends Serializer<Batch> {
    private static final int MIXED = 0;
    private static final int ONE_CLASS = 1;

    @Override
    public void write(Kryo kryo, Output output, Batch batch) {
        long before = output.total();
        int rows = batch.size();
        int columns = rows == 0 ? 0 : batch.row(0).size();
        for (int row = 1; row < rows; row++) {
            if (batch.row(row).size() != columns) {
                throw new IllegalArgumentException("tuples of one stream have " + columns + " and "
                    + batch.row(row).size() + " fields");
            }
        }
        output.writeVarInt(rows, true);
        output.writeVarInt(columns, true);
        for (int column = 0; column < columns; column++) {
            Class<?> type = commonClass(batch, column);
            output.writeByte(type == null ? MIXED : ONE_CLASS);
            if (type == null) {
                for (int row = 0; row < rows; row++) {
                    kryo.writeClassAndObject(output, batch.row(row).get(column));
                }
            } else {
                Registration registration = kryo.writeClass(output, type);
                for (int row = 0; row < rows; row++) {
                    kryo.writeObject(output, batch.row(row).get(column), registration.getSerializer());
                }
            }
        }
        batch.serialised(output.total() - before);
    }

    /** The class of all values in a column; null where there are several, or null values. */
    private static Class<?> commonClass(Batch batch, int column) {
        Class<?> type = null;
        for (int row = 0; row < batch.size(); row++) {
            Object value = batch.row(row).get(column);
            if (value == null || type != null && type != value.getClass()) {
                return null;
            }
            type = value.getClass();
        }
        return type;
    }

    @Override
    public Batch read(Kryo kryo, Input input, Class<? extends Batch> type) {
        int rows = input.readVarInt(true);
        int columns = input.readVarInt(true);
        List<List<Object>> values = new ArrayList<>(rows);
        for (int row = 0; row < rows; row++) {
            values.add(new ArrayList<>(columns));
        }
        for (int column = 0; column < columns; column++) {
            if (input.readByte() == MIXED) {
                for (List<Object> row : values) {
                    row.add(kryo.readClassAndObject(input));
                }
            } else {
                Registration registration = kryo.readClass(input);
                for (List<Object> row : values) {
                    row.add(kryo.readObject(input, registration.getType(), registration.getSerializer()));
                }
            }
        }
        Batch batch = new Batch(rows, null);
        values.forEach(batch::add);
        return batch;
    }
}
