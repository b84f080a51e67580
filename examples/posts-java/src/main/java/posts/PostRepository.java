package posts;

import java.util.List;
import org.springframework.data.domain.Limit;
import org.springframework.data.jpa.repository.JpaRepository;

public interface PostRepository extends JpaRepository<Post, Long> {
    /** IDs sort by time, so the newest posts are those with the largest keys. */
    List<Post> findByIdLessThanOrderByIdDesc(long id, Limit limit);
}
