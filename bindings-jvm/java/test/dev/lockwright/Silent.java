package dev.lockwright;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URI;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;

/** The way to a server, on which nothing comes through while it is silent. */
final class Silent implements Closeable {
  private final URI server;
  private final ServerSocket listens = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  private final Queue<Socket> sockets = new ConcurrentLinkedQueue<>();
  private volatile CountDownLatch open = new CountDownLatch(0);

  Silent(String server) throws IOException {
    this.server = URI.create(server);
    begin(this::accept);
  }

  /** The same address, by this way. */
  String address() {
    String query = server.getRawQuery() == null ? "" : "?" + server.getRawQuery();
    return "redis://127.0.0.1:" + listens.getLocalPort() + query;
  }

  void fallSilent() {
    open = new CountDownLatch(1);
  }

  void speak() {
    open.countDown();
  }

  private interface Work {
    void go() throws IOException, InterruptedException;
  }

  private static void begin(Work work) {
    Thread thread = new Thread(() -> {
      try {
        work.go();
      } catch (IOException | InterruptedException over) {
        // It was closed, at this end or the other.
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  private void accept() throws IOException {
    while (true) {
      Socket near = listens.accept();
      Socket far = new Socket(server.getHost(), server.getPort());
      sockets.add(near);
      sockets.add(far);
      begin(() -> carry(near, far));
      begin(() -> carry(far, near));
    }
  }

  private void carry(Socket from, Socket to) throws IOException, InterruptedException {
    try (from; to) {
      InputStream in = from.getInputStream();
      OutputStream out = to.getOutputStream();
      byte[] bytes = new byte[4096];
      for (int read; (read = in.read(bytes)) > 0; ) {
        open.await();
        out.write(bytes, 0, read);
      }
    }
  }

  @Override
  public void close() throws IOException {
    speak();
    listens.close();
    for (Socket socket : sockets) {
      socket.close();
    }
  }
}
