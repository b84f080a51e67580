package posts;

import java.net.URI;
import java.util.List;
import org.springframework.data.domain.Limit;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestBody;
import org.springframework.web.bind.annotation.RequestParam;
import org.springframework.web.bind.annotation.RestController;

@RestController
public class PostController {
    record NewPost(Long communityId, Long userId, String content) {}

    private final PostRepository posts;

    PostController(PostRepository posts) {
        this.posts = posts;
    }

    @PostMapping("/posts")
    ResponseEntity<Post> create(@RequestBody NewPost asked) {
        if (asked.content() == null || asked.content().isBlank() || asked.content().length() > 10_000) {
            return ResponseEntity.badRequest().build();
        }
        Post post = posts.save(new Post(asked.communityId(), asked.userId(), asked.content()));
        return ResponseEntity.created(URI.create("/posts/" + post.getId())).body(post);
    }

    @GetMapping("/posts/{id}")
    ResponseEntity<Post> one(@PathVariable("id") long id) {
        return ResponseEntity.of(posts.findById(id));
    }

    @GetMapping("/posts")
    List<Post> newest(@RequestParam(name = "before", defaultValue = "" + Long.MAX_VALUE) long before,
            @RequestParam(name = "limit", defaultValue = "20") int limit) {
        return posts.findByIdLessThanOrderByIdDesc(before, Limit.of(Math.max(1, Math.min(100, limit))));
    }
}
