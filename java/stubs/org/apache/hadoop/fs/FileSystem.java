package org.apache.hadoop.fs;

import java.io.Closeable;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.util.Progressable;

public abstract class FileSystem extends Configured implements Closeable {
    public static LocalFileSystem getLocal(Configuration conf) throws IOException {
        throw new UnsupportedOperationException();
    }

    public void initialize(URI name, Configuration conf) throws IOException {
        throw new UnsupportedOperationException();
    }

    public abstract URI getUri();

    public String getScheme() {
        throw new UnsupportedOperationException();
    }

    public String getCanonicalServiceName() {
        throw new UnsupportedOperationException();
    }

    public FileSystem[] getChildFileSystems() {
        throw new UnsupportedOperationException();
    }

    public Path makeQualified(Path path) {
        throw new UnsupportedOperationException();
    }

    public FSDataInputStream open(Path path) throws IOException {
        throw new UnsupportedOperationException();
    }

    public abstract FSDataInputStream open(Path path, int bufferSize) throws IOException;

    public FSDataOutputStream create(Path path, boolean overwrite) throws IOException {
        throw new UnsupportedOperationException();
    }

    public abstract FSDataOutputStream create(Path path, FsPermission permission, boolean overwrite, int bufferSize,
        short replication, long blockSize, Progressable progress) throws IOException;

    public FSDataOutputStream createNonRecursive(Path path, FsPermission permission, EnumSet<CreateFlag> flags,
            int bufferSize, short replication, long blockSize, Progressable progress) throws IOException {
        throw new UnsupportedOperationException();
    }

    public FSDataOutputStreamBuilder createFile(Path path) {
        throw new UnsupportedOperationException();
    }

    public abstract FSDataOutputStream append(Path path, int bufferSize, Progressable progress) throws IOException;

    public abstract boolean rename(Path source, Path target) throws IOException;

    public abstract boolean delete(Path path, boolean recursive) throws IOException;

    public abstract FileStatus[] listStatus(Path path) throws FileNotFoundException, IOException;

    public FileStatus[] listStatus(Path path, PathFilter filter) throws FileNotFoundException, IOException {
        throw new UnsupportedOperationException();
    }

    public abstract void setWorkingDirectory(Path path);

    public abstract Path getWorkingDirectory();

    public boolean mkdirs(Path path) throws IOException {
        throw new UnsupportedOperationException();
    }

    public abstract boolean mkdirs(Path path, FsPermission permission) throws IOException;

    public void copyFromLocalFile(boolean deleteSource, boolean overwrite, Path local, Path path) throws IOException {
        throw new UnsupportedOperationException();
    }

    public void copyToLocalFile(boolean deleteSource, Path path, Path local) throws IOException {
        throw new UnsupportedOperationException();
    }

    public void copyToLocalFile(boolean deleteSource, Path path, Path local, boolean raw) throws IOException {
        throw new UnsupportedOperationException();
    }

    public abstract FileStatus getFileStatus(Path path) throws IOException;

    public boolean isFile(Path path) throws IOException {
        throw new UnsupportedOperationException();
    }

    public boolean isDirectory(Path path) throws IOException {
        throw new UnsupportedOperationException();
    }

    public FutureDataInputStreamBuilder openFile(Path path) throws IOException {
        throw new UnsupportedOperationException();
    }

    public FsStatus getStatus(Path path) throws IOException {
        throw new UnsupportedOperationException();
    }

    public short getDefaultReplication(Path path) {
        throw new UnsupportedOperationException();
    }

    public long getDefaultBlockSize(Path path) {
        throw new UnsupportedOperationException();
    }

    public byte[] getXAttr(Path path, String name) throws IOException {
        throw new UnsupportedOperationException();
    }

    @Override
    public void close() throws IOException {
        throw new UnsupportedOperationException();
    }
}
